//! The program against servers that people run: nginx, php-fpm, Apache httpd, Squid.
//!
//! - `nginx`: static files, what answers can look like, limits of keep-alive, https
//! - `php`: php-fpm behind nginx
//! - `apache`: CGI scripts under two process models
//! - `squid`: Squid as accelerator in front of httpd
//! - `daemon`, `place`, `trial`: servers started here, their files, a run of ours and its judge
//!
//! Every server is started by its test, from a configuration in a folder of its own, on free ports
//! of loopback or a Unix socket, and ended with the test. Nothing of the system's own services is
//! touched. Each run is made on both event backends, where the kernel has them. `make
//! test-packages` installs the servers; where one is missing its tests say that they skip, and
//! with the environment variable CI set they fail instead.

mod apache;
mod daemon;
mod nginx;
mod php;
mod place;
mod squid;
mod trial;
