//! `kill -9` at random moments.

use std::time::Duration;

use crate::lab::{Lab, SignalTarget};

/// The moments are within this time after the start: reading the file, checks, and about the first
/// hundred trials.
const WITHIN_MS: u64 = 1500;

/// Kills a number of sweeps, every second one with its process group.
fn kill(seed: u64, moments: u32) {
    let Some(lab) = Lab::new() else { return };
    let plan = lab.plan("");
    let before = lab.state();
    let mut lots = fastrand::Rng::with_seed(seed);
    let mut put_back = 0;
    for number in 1..=moments {
        let moment = Duration::from_micros(lots.u64(0..WITHIN_MS * 1000));
        let to = if lots.bool() {
            SignalTarget::Process
        } else {
            SignalTarget::Group
        };
        let when = format!("moment {number} of seed {seed}: {to:?} after {moment:?}");
        let _ = std::fs::remove_dir_all(lab.place.file("results"));
        let mut sweep = lab.sweep(&plan);
        // On any machine, half of the moments are after the first change.
        if number % 2 == 0 {
            await_journal(&lab);
        }
        std::thread::sleep(moment);
        if sweep.child.try_wait().unwrap().is_some() {
            panic!("{when}: has ended by itself: {}", sweep.end());
        }
        sweep.signal("KILL", to);
        let said = sweep.end();
        let differences = lab.differences(&before);
        assert!(differences.is_empty(), "{when}: {differences:#?}\n{said}");
        let journal = std::fs::read_to_string(lab.place.file("journal/journal"));
        assert!(
            journal.is_err(),
            "{when}: a journal stays: {journal:?}\n{said}"
        );
        let (code, stdout, stderr) = lab.restore(&[]);
        assert_eq!(code, 0, "{when}: {stdout}{stderr}");
        assert!(stdout.starts_with("nothing to restore"), "{when}: {stdout}");
        let was_put_back = said.contains(" again");
        put_back += u32::from(was_put_back);
        println!(
            "{when}: {}",
            if was_put_back {
                "restored"
            } else {
                "nothing was changed"
            }
        );
    }
    println!("{moments} moments, {put_back} of them with settings put back; no difference");
    assert!(
        put_back * 2 >= moments,
        "most moments were before the first change: {put_back}"
    );
}

/// Waits until the sweep has written to the journal what it is about to change.
fn await_journal(lab: &Lab) {
    let journal = lab.place.file("journal/journal");
    let is_there = (0..20_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        std::fs::metadata(&journal).is_ok_and(|file| file.len() > 0)
    });
    assert!(is_there, "the sweep has begun no change");
}

#[test]
fn everything_is_restored_after_kills_at_a_few_random_moments() {
    kill(20_261, 6);
}

#[test]
#[ignore = "takes a minute: make kill"]
fn everything_is_restored_after_kills_at_fifty_random_moments() {
    kill(4, 50);
}
