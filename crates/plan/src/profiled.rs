//! Where the server is whose call stacks are sampled.

/// What is in front of the name of a machine.
const HOST: &str = "host=";

/// The server of `--profile`: `nginx`, or `host=web1:nginx` on another machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfiledServer<'t> {
    /// The name of the agent on its machine; `None` if that is the machine of the run.
    pub host: Option<&'t str>,
    /// The number of a process, a systemd unit, or the name of processes.
    pub server: &'t str,
}

impl<'t> ProfiledServer<'t> {
    /// The parts of a text.
    ///
    /// # Errors
    /// What is wrong with it, to be shown after the text.
    pub fn of(text: &'t str) -> Result<Self, &'static str> {
        let (host, server) = match text.strip_prefix(HOST).map(|rest| rest.split_once(':')) {
            None => (None, text),
            Some(Some((host, server))) if !host.trim().is_empty() => (Some(host), server),
            Some(_) => return Err("must be host=NAME:SERVER, with the name of an agent"),
        };
        if server.trim().is_empty() {
            return Err("must be a process ID, a systemd unit or the name of a process");
        }
        if server.contains(['/', '\0']) {
            return Err("must be a name without a folder");
        }
        Ok(Self { host, server })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_here_or_on_a_named_machine() {
        for (text, host, server) in [
            ("7", None, "7"),
            ("a server", None, "a server"),
            ("web1:nginx", None, "web1:nginx"),
            ("host=web1:nginx", Some("web1"), "nginx"),
            ("host=web1:a:b", Some("web1"), "a:b"),
        ] {
            assert_eq!(
                ProfiledServer::of(text),
                Ok(ProfiledServer { host, server })
            );
        }
    }

    #[test]
    fn what_names_no_server_is_refused() {
        for text in [
            "",
            " ",
            "/usr/sbin/nginx",
            "a\0b",
            "host=web1:/bin/a",
            "host=a: ",
        ] {
            assert!(ProfiledServer::of(text).is_err(), "{text:?}");
        }
        for text in ["host=", "host=web1", "host=:nginx", "host= :nginx"] {
            let problem = ProfiledServer::of(text).expect_err(text);
            assert!(problem.contains("host=NAME:SERVER"), "{text}: {problem}");
        }
    }
}
