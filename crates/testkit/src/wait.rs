//! Waiting for what must happen.

use std::time::{Duration, Instant};

/// The longest time to wait for an event that must happen. It only ends a test that hangs: far more
/// than anything takes, even on a busy machine.
pub const WAIT_MAX: Duration = Duration::from_secs(120);

/// Asks until the answer is `Ok` and returns it. For states that nobody reports, such as those of
/// another process.
///
/// # Panics
/// With the last error, when [`WAIT_MAX`] is over.
pub fn eventually<T>(mut ask: impl FnMut() -> Result<T, String>) -> T {
    const PAUSE: Duration = Duration::from_millis(1);
    let begin = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(missing) => assert!(begin.elapsed() < WAIT_MAX, "it never happened: {missing}"),
        }
        std::thread::park_timeout(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_again_until_there_is_an_answer() {
        let mut asked = 0;
        let answer = eventually(|| {
            asked += 1;
            if asked == 3 {
                Ok(asked)
            } else {
                Err("not yet".to_owned())
            }
        });
        assert_eq!(answer, 3);
    }
}
