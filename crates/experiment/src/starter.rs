//! Commented experiment files to begin with.

/// What a file is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starter {
    /// Workers, accept queue and keep-alive of nginx.
    Nginx,
    /// Number of processes of php-fpm.
    PhpFpm,
    /// Memory and buffers of Squid.
    Squid,
    /// Queues and buffers of the kernel.
    Sysctl,
}

impl Starter {
    /// All starters, in the order in which they are listed.
    pub const ALL: [Self; 4] = [Self::Nginx, Self::PhpFpm, Self::Squid, Self::Sysctl];

    /// The text of the file.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Nginx => include_str!("starter/nginx.toml"),
            Self::PhpFpm => include_str!("starter/php-fpm.toml"),
            Self::Squid => include_str!("starter/squid.toml"),
            Self::Sysctl => include_str!("starter/sysctl.toml"),
        }
    }
}
