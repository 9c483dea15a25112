//! Messages that nobody of the fleet would send.

use cluster::bus::Outgoing;
use cluster::coordinator::PartResult;
use proptest::prelude::*;

use crate::simulation::{Receiver, Simulation};

/// How messages are changed: where, to what, in which way.
type Change = (u16, u8, u8);

fn changed(payload: &[u8], (at, byte, how): Change) -> Vec<u8> {
    let mut changed = payload.to_vec();
    let at = usize::from(at) % changed.len();
    match how % 4 {
        0 => changed[at] = byte,
        1 => changed.truncate(at),
        2 => changed.insert(at, byte),
        _ => drop(changed.remove(at)),
    }
    changed
}

#[test]
fn a_piece_that_names_another_session_is_sent_again() {
    let mut simulation = Simulation::new(1);
    // Too large for the order.
    simulation.package.files[1].data = vec![b' '; 100_000];
    simulation.begin();
    let mut pieces = 0;
    simulation.set_rule(move |_, _, payload| {
        let right = (0, payload.to_vec());
        let text = String::from_utf8_lossy(payload);
        if !text.contains(r#""ask":{"type":"piece""#) {
            return vec![right];
        }
        let wrong = text.replacen(r#""session":""#, r#""session":"no"#, 1);
        pieces += 1;
        assert!(pieces < 10 && *wrong != *text, "{text}");
        vec![(0, wrong.into_bytes()), right]
    });
    let outcome = simulation.finish();
    assert_eq!(outcome.failure, None);
    assert!(matches!(outcome.parts[0].result, PartResult::Complete(_)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Agents also hear everything in a changed form. Orders are signed, so it has no effect, and a
    /// coordinator whose order was refused because of that repeats it.
    #[test]
    fn changed_copies_of_what_agents_hear_change_no_run(
        changes in proptest::collection::vec(any::<Change>(), 1..40),
        comes_first in any::<bool>(),
    ) {
        let mut simulation = Simulation::new(2);
        simulation.begin();
        let mut next = 0;
        simulation.set_rule(move |receiver, _, payload| {
            next += 1;
            let right = (0, payload.to_vec());
            let wrong = (0, changed(payload, changes[next % changes.len()]));
            match receiver {
                Receiver::Coordinator => vec![right],
                Receiver::Agent(_) if comes_first => vec![wrong, right],
                Receiver::Agent(_) => vec![right, wrong],
            }
        });
        let outcome = simulation.finish();
        prop_assert_eq!(outcome.failure, None);
        for part in outcome.parts {
            prop_assert_eq!(part.result, PartResult::Complete(b"a result".to_vec()));
        }
    }

    /// What agents say is not signed: a changed time has orders expire too early, and a changed
    /// state is another state. So a run may be refused before its start, and an agent whose number
    /// of a beat was raised is lost, since its next beats seem old. But what is delivered is right:
    /// a result has a digest. TCP and NATS do not change messages, and who may publish for an agent
    /// is the business of NATS' permissions.
    #[test]
    fn changed_copies_of_all_messages_change_no_result(
        changes in proptest::collection::vec(any::<Change>(), 1..40),
    ) {
        let mut simulation = Simulation::new(2);
        simulation.begin();
        let mut next = 0;
        simulation.set_rule(move |_, _, payload| {
            next += 1;
            let wrong = changed(payload, changes[next % changes.len()]);
            vec![(0, payload.to_vec()), (0, wrong)]
        });
        let outcome = simulation.finish();
        if outcome.failure.is_none() {
            for part in outcome.parts {
                match part.result {
                    PartResult::Missing(_) => prop_assert!(part.was_lost),
                    result => {
                        prop_assert_eq!(result, PartResult::Complete(b"a result".to_vec()));
                    }
                }
            }
        }
    }

    #[test]
    fn any_bytes_are_survived(
        texts in proptest::collection::vec((0..5_usize, any::<Vec<u8>>()), 1..20),
    ) {
        let subjects = [
            "wrkbench.2.lab.ask.a0",
            "wrkbench.2.lab.all",
            "wrkbench.2.lab.beat.a0",
            "_INBOX.coordinator",
            "_INBOX.other",
        ];
        let mut simulation = Simulation::new(1);
        simulation.begin();
        for (subject, payload) in texts {
            let subject = subjects[subject].to_owned();
            simulation.publish(None, Outgoing { reply: None, subject, payload });
        }
        let outcome = simulation.finish();
        prop_assert_eq!(outcome.failure, None);
    }
}
