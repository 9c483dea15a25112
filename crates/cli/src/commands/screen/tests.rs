//! The screen on a pseudo-terminal: panics, and impossible sizes.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::thread;

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::*;

/// A pseudo-terminal: its controlling end, and a device on the other one.
fn terminal() -> (File, Arc<Device>) {
    let far = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&far).unwrap();
    unlockpt(&far).unwrap();
    let name = ptsname(&far, Vec::new()).unwrap();
    let path = Path::new(name.to_str().unwrap());
    let near = open(path, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (File::from(far), Arc::new(Device::of(&near).unwrap()))
}

fn shared() -> Arc<ScreenState> {
    let (waker, _) = UnixStream::pair().unwrap();
    Arc::new(ScreenState {
        view: Mutex::new(View::Sweep(Box::new(Grid::new("", &[], 1)))),
        since_ms: AtomicU64::new(0),
        second: SecondSignal::new(&Arc::default()),
        is_over: AtomicBool::new(false),
        is_closed: AtomicBool::new(false),
        waker,
        redirection: Redirection::default(),
    })
}

fn read_until(far: &mut File, end: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut some = [0; 256];
    while !text.ends_with(end) {
        let length = far.read(&mut some).unwrap();
        text.extend_from_slice(&some[..length]);
    }
    text
}

#[test]
fn a_panic_in_any_thread_restores_the_terminal_for_good() {
    let (mut far, device) = terminal();
    let shared = shared();
    give_back_on_panic(&device, &shared);
    device.enter().unwrap();
    device.show(b"a picture").unwrap();
    assert!(device.is_entered());
    let panicked = thread::spawn(|| panic!("on purpose")).join();
    assert!(panicked.is_err());
    read_until(&mut far, b"\x1b[?25h\x1b[?1049l");
    // The drawing thread may be about to enter again.
    device.enter().unwrap();
    assert!(!device.is_entered());
    assert!(shared.is_over.load(Ordering::Acquire));
}

#[test]
fn an_impossible_size_is_corrected() {
    let (far, device) = terminal();
    let size = |ws_col, ws_row| rustix::termios::Winsize {
        ws_row,
        ws_col,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    for (told, used) in [
        ((65535, 65535), (1000, 500)),
        ((0, 0), (80, 24)),
        ((1, 1), (1, 1)),
    ] {
        rustix::termios::tcsetwinsize(&far, size(told.0, told.1)).unwrap();
        assert_eq!(device.size(), used);
    }
}
