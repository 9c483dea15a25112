//! The real machine, in temporary folders and processes of the tests.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;

use testkit::{Folder, Refusing, TestServer};

use super::*;
use crate::host::replacement_name;

fn file_in(folder: &Folder, name: &str, content: &str) -> PathBuf {
    folder.file_with(name, content).into()
}

fn machine() -> Machine {
    machine_with(None)
}

fn machine_with(guardian: Option<GuardianCommand>) -> Machine {
    Machine::new(MachineSettings {
        wall_clock: || None,
        guardian,
    })
}

/// A time limit that no command of these tests reaches.
const LONG: Duration = Duration::from_secs(60);

fn run(command: &str) -> CommandOutput {
    run_within(command, LONG)
}

fn run_within(command: &str, limit: Duration) -> CommandOutput {
    let environment = BTreeMap::from([("LEVEL".to_owned(), "a b".to_owned())]);
    machine().run(command, &environment, limit).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the process runs; a zombie does not.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

#[test]
fn a_replaced_file_keeps_its_mode_and_leaves_nothing_beside_it() {
    let folder = Folder::new();
    let path = file_in(&folder, "server.conf", "old");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
    machine().replace(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o4751);
    assert_eq!(folder.names(), ["server.conf"]);
}

#[test]
fn a_replaced_file_keeps_owner_and_attributes() {
    if !machine().is_root() {
        testkit::skip("root", "only root can give files away");
        return;
    }
    let folder = Folder::new();
    let path = file_in(&folder, "server.conf", "old");
    std::os::unix::fs::chown(&path, Some(12345), Some(54321)).unwrap();
    let has_attributes = rustix::fs::setxattr(
        &path,
        "user.wrkbench",
        b"kept",
        rustix::fs::XattrFlags::empty(),
    )
    .is_ok();
    machine().replace(&path, b"new").unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (12345, 54321));
    if has_attributes {
        let mut value = [0; 16];
        let length = rustix::fs::getxattr(&path, "user.wrkbench", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"kept");
    }
}

#[test]
fn a_link_stays_a_link_and_its_file_is_replaced() {
    let folder = Folder::new();
    let path = file_in(&folder, "available", "old");
    let link = folder.join("enabled");
    symlink("available", &link).unwrap();
    machine().replace(&link, b"new").unwrap();
    assert_eq!(fs::read_link(&link).unwrap(), Path::new("available"));
    assert_eq!(fs::read(path).unwrap(), b"new");
    let lost = folder.join("lost");
    symlink("nowhere", &lost).unwrap();
    assert!(machine().replace(&lost, b"new").is_err());
}

#[test]
fn a_missing_file_is_created_and_one_with_hard_links_is_refused() {
    let folder = Folder::new();
    let path = folder.join("new.conf");
    machine().replace(&path, b"made").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"made");
    fs::hard_link(&path, folder.join("other.conf")).unwrap();
    let error = machine().replace(&path, b"x").unwrap_err();
    assert!(error.to_string().contains("hard link"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"made");
    assert!(machine().replace(folder.path(), b"x").is_err(), "a folder");
}

#[test]
fn the_temporary_file_of_an_interrupted_replacement_is_removed_also_behind_a_link() {
    let folder = Folder::new();
    let path = file_in(&folder, "server.conf", "old");
    fs::create_dir(folder.join("enabled")).unwrap();
    let link = folder.join("enabled/server.conf");
    symlink(&path, &link).unwrap();
    fs::write(replacement_name(&path), "half").unwrap();
    machine().discard_replacement(&link).unwrap();
    assert_eq!(folder.names(), ["enabled", "server.conf"]);
    machine().discard_replacement(&link).unwrap();
    // A stale temporary file, or a link to elsewhere, does not disturb the next replacement.
    let victim = file_in(&folder, "victim", "mine");
    symlink(&victim, replacement_name(&path)).unwrap();
    machine().replace(&path, b"new").unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    assert_eq!(fs::read(&path).unwrap(), b"new");
}

#[test]
fn new_files_in_a_private_folder_are_closed_to_others_and_old_ones_keep_their_mode() {
    let folder = Folder::new();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    let (inside, outside) = (folder.join("results"), folder.join("results-of-others"));
    let mut machine = machine();
    machine.keep_private(inside.clone());
    for of in [&inside, &outside] {
        fs::create_dir(of).unwrap();
        machine.replace(&of.join("new"), b"secret").unwrap();
    }
    assert_eq!(mode(&inside.join("new")), 0o600);
    let old = inside.join("old");
    fs::write(&old, "").unwrap();
    assert_eq!(mode(&outside.join("new")), mode(&old), "that of the umask");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).unwrap();
    machine.replace(&old, b"secret").unwrap();
    assert_eq!(mode(&old), 0o640);
}

#[test]
fn appends_are_added_and_closed_to_others() {
    let folder = Folder::new();
    let path = folder.join("journal");
    let mut machine = machine();
    machine.append(&path, b"one").unwrap();
    machine.append(&path, b" two").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"one two");
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    machine.remove(&path).unwrap();
    let error = machine.remove(&path).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn folders_are_created_with_their_parents_and_closed_to_others() {
    let folder = Folder::new();
    let path = folder.join("a/b/c");
    machine().make_folder(&path).unwrap();
    machine().make_folder(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn a_second_process_learns_who_holds_the_lock() {
    let folder = Folder::new();
    let path = folder.join("lock");
    let (mut first, mut second) = (machine(), machine());
    assert_eq!(first.lock(&path, "pid 1, \"x\"").unwrap(), Lock::Ours);
    assert_eq!(
        second.lock(&path, "pid 2").unwrap(),
        Lock::HeldBy("pid 1, \"x\"".to_owned())
    );
    first.unlock();
    assert_eq!(second.lock(&path, "pid 2").unwrap(), Lock::Ours);
    second.unlock();
    assert_eq!(first.lock(&path, "pid 1").unwrap(), Lock::Ours);
}

#[test]
fn those_that_share_a_lock_keep_away_whoever_wants_it_alone() {
    let folder = Folder::new();
    let path = folder.join("lock");
    let (mut first, mut second, mut third) = (machine(), machine(), machine());
    let held_by = |holder: &str| Lock::HeldBy(holder.to_owned());
    // One that held it alone shares it.
    assert_eq!(first.lock(&path, "one").unwrap(), Lock::Ours);
    assert!(!second.share_lock(&path, "two").unwrap());
    assert!(first.share_lock(&path, "one").unwrap());
    assert!(second.share_lock(&path, "two").unwrap());
    assert_eq!(third.lock(&path, "three").unwrap(), held_by("one and two"));
    first.unlock();
    assert_eq!(third.lock(&path, "three").unwrap(), held_by("two"));
    second.unlock();
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert_eq!(third.lock(&path, "three").unwrap(), Lock::Ours);
    assert!(!first.share_lock(&path, "one").unwrap());
    assert_eq!(first.lock(&path, "one").unwrap(), held_by("three"));
}

#[test]
fn a_command_gets_the_environment_and_returns_how_it_ended() {
    let output = run("echo \"$LEVEL\"; echo why >&2; exit 3");
    assert_eq!(output.exit_code, Some(3));
    assert_eq!(text(&output.stdout), "a b\n");
    assert_eq!(text(&output.stderr), "why\n");
    assert!(!output.timed_out);
    assert_eq!(output.failure(), "failed with exit code 3: why");
    let output = run("kill -TERM $$");
    assert_eq!((output.exit_code, output.timed_out), (None, false));
}

#[test]
fn a_command_has_nothing_to_read_and_its_quotes_are_its_own() {
    assert_eq!(text(&run("cat; echo done").stdout), "done\n");
    assert_eq!(
        text(&run("echo \"it's\" '$LEVEL' \"$#\"").stdout),
        "it's $LEVEL 0\n"
    );
    assert_ne!(run("if then").exit_code, Some(0));
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_everything_it_started() {
    let output = run_within("sleep 1000 & echo $!; wait", Duration::from_millis(300));
    assert!(output.timed_out);
    assert_eq!(output.exit_code, None);
    let pid = text(&output.stdout);
    assert!(!pid.trim().is_empty());
    // The signal has been sent to the whole group; the kernel delivers it in its own time.
    while is_running(pid.trim()) {
        std::thread::yield_now();
    }
}

#[test]
fn a_background_server_is_not_waited_for_and_may_keep_writing() {
    let folder = Folder::new();
    let go = folder.join("go");
    let said = folder.join("said");
    assert!(run(&format!("mkfifo {}", go.display())).exit_code == Some(0));
    // More than a pipe holds, after the hook has ended.
    let output = run(&format!(
        "(read x <{0}; head -c 300000 /dev/zero; echo $? >{1}.new; mv {1}.new {1}) & echo started",
        go.display(),
        said.display()
    ));
    assert_eq!(text(&output.stdout), "started\n");
    fs::write(&go, "\n").unwrap();
    while !said.exists() {
        std::thread::yield_now();
    }
    assert_eq!(fs::read(&said).unwrap(), b"0\n");
}

#[test]
fn the_end_of_long_output_is_kept_with_a_note() {
    let output = run("head -c 300000 /dev/zero | tr '\\0' x; echo; echo the end");
    let text = text(&output.stdout);
    assert!(
        text.starts_with("[234473 bytes omitted]\nxxx"),
        "{}",
        &text[..80]
    );
    assert!(text.ends_with("x\nthe end\n"));
    assert!(text.len() < 66_000);
}

#[test]
fn an_endless_output_does_not_outlast_the_limit() {
    let output = run_within("yes", Duration::from_millis(200));
    assert!(output.timed_out);
}

#[test]
fn programs_are_found_as_the_shell_finds_them() {
    let machine = machine();
    for name in ["sh", "cd", "/bin/sh"] {
        assert!(machine.has_program(name), "{name}");
    }
    for name in ["no-such-program", "", "-v", "$(true)", "/etc/passwd"] {
        assert!(!machine.has_program(name), "{name}");
    }
}

#[test]
fn devices_and_pipes_are_not_read() {
    let folder = Folder::new();
    let pipe = folder.join("pipe");
    assert_eq!(
        run(&format!("mkfifo {}", pipe.display())).exit_code,
        Some(0)
    );
    for path in [Path::new("/dev/zero"), &pipe] {
        let error = machine().read(path).unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }
    let error = machine().read(folder.path()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    let boot_id = machine().read(Path::new("/proc/sys/kernel/random/boot_id"));
    assert_eq!(text(&boot_id.unwrap()).trim_end(), machine().boot_id());
    assert_eq!(machine().boot_id().len(), 36);
    assert!(machine().network_namespace().starts_with("net:["));
}

#[test]
fn unwritable_paths_are_detected_without_writing() {
    let folder = Folder::new();
    let path = file_in(&folder, "a.conf", "x");
    let machine = machine();
    machine.check_writable(&path).unwrap();
    machine.check_writable(&folder.join("new.conf")).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"x");
    for path in [
        folder.join("nowhere/new.conf"),
        // Not even root can write these.
        "/proc/sys/kernel/ostype".into(),
        "/proc/sys/net/no_such_key".into(),
        folder.path().to_owned(),
    ] {
        assert!(machine.check_writable(&path).is_err(), "{path:?}");
    }
}

#[test]
fn a_request_returns_the_status_or_the_reason() {
    let server = TestServer::start(|stream| {
        let mut request = BufReader::new(&stream).lines();
        while !request.next().transpose()?.unwrap_or_default().is_empty() {}
        (&stream).write_all(b"HTTP/1.1 503 Not yet\r\n\r\n")
    });
    let status = machine().http_status(&format!("http://{}/", server.address()), LONG);
    assert_eq!(status.unwrap(), 503);
    let refusing = Refusing::new();
    let refused = machine().http_status(&format!("http://{}/", refusing.address()), LONG);
    let reason = "unable to connect: Connection refused";
    assert_eq!(refused.unwrap_err().to_string(), reason);
}

/// A guardian that is a shell command; its first argument is the folder.
fn shell(line: &'static str) -> Option<GuardianCommand> {
    Some(Box::new(move |folder| {
        let mut command = Command::new("sh");
        command.args(["-c", line, "sh"]).arg(folder);
        command
    }))
}

#[test]
fn a_guardian_that_has_died_is_replaced() {
    let folder = Folder::new();
    let pids = folder.join("pids");
    let mut machine = machine_with(shell(
        "echo $$ >>\"$1/pids\"; echo ready >&0; exec cat <&0 >\"$1/heard\"",
    ));
    machine.keep_guardian(folder.path()).unwrap();
    machine.keep_guardian(folder.path()).unwrap();
    let first = fs::read_to_string(&pids).unwrap();
    assert_eq!(first.lines().count(), 1);
    assert!(run(&format!("kill -9 {first}")).exit_code == Some(0));
    while is_running(first.trim()) {
        std::thread::yield_now();
    }
    machine.keep_guardian(folder.path()).unwrap();
    assert_eq!(fs::read_to_string(&pids).unwrap().lines().count(), 2);
    let output = machine.run("true", &BTreeMap::new(), LONG).unwrap();
    assert_eq!(output.exit_code, Some(0));
    drop(machine);
    let heard = folder.join("heard");
    while !fs::read_to_string(&heard)
        .unwrap_or_default()
        .contains("ended")
    {
        std::thread::yield_now();
    }
    assert!(fs::read_to_string(&heard).unwrap().starts_with("begins "));
}

#[test]
fn a_guardian_that_does_not_start_is_an_error() {
    let folder = Folder::new();
    for (line, why) in [
        (Some("exit 0"), "exited immediately"),
        (Some("echo hello >&0"), "unexpected reply"),
        (None, "has no guardian"),
    ] {
        let mut machine = machine_with(line.and_then(shell));
        let error = machine
            .keep_guardian(folder.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{error}");
    }
    let mut machine = machine_with(Some(Box::new(|_| Command::new("/no/such/program"))));
    assert!(machine.keep_guardian(folder.path()).is_err());
}

#[test]
fn dismissing_a_guardian_waits_until_it_has_released_the_lock() {
    let folder = Folder::new();
    let lock = folder.join("lock");
    let mut first = machine_with(shell(
        "echo ready >&0; read -r word <&0; test \"$word\" = farewell",
    ));
    assert_eq!(first.lock(&lock, "first").unwrap(), Lock::Ours);
    first.keep_guardian(folder.path()).unwrap();
    first.lock = None;
    let mut second = machine();
    assert!(
        matches!(second.lock(&lock, "second").unwrap(), Lock::HeldBy(_)),
        "the guardian has it"
    );
    first.dismiss_guardian();
    assert_eq!(second.lock(&lock, "second").unwrap(), Lock::Ours);
}

#[test]
fn a_claimed_resource_cannot_be_claimed_by_another_sweep() {
    let folder = Folder::new();
    let [mut one, mut other] = [machine(), machine()];
    assert!(one.claim(folder.path()).unwrap());
    assert!(
        one.claim(folder.path()).unwrap(),
        "its own it can have again"
    );
    assert!(!other.claim(folder.path()).unwrap());
    one.unlock();
    assert!(other.claim(folder.path()).unwrap());
    drop(other);
    assert!(one.claim(folder.path()).unwrap());
}
