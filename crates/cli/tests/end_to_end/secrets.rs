//! Passwords, tokens and cookies: sent, and neither shown nor saved.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use origin::Options;
use testkit::Process;

use crate::harness::{Site, call, load, program, site, site_with};

/// A text that only the secrets contain.
const SECRET: &str = "hush";

fn recording() -> Site {
    site_with(Options {
        record_requests: 1000,
        ..Options::default()
    })
}

fn requests(site: Site) -> Vec<String> {
    let recorded = site.stop().recorded.into_iter();
    recorded
        .map(|one| String::from_utf8(one).unwrap())
        .collect()
}

/// The URL of the server, with a user and a password that need to be decoded.
fn url_with_user(site: &Site) -> String {
    format!("http://a%40b:{SECRET}%3A1@{}/", site.authority())
}

#[test]
fn a_secret_reaches_the_server_and_no_output() {
    let site = recording();
    let url = url_with_user(&site);
    let options = [
        "-H",
        "X-Api-Key: hush-2",
        "-HCookie: id=hush-3; b=hush-4",
        "--header=X-Trace: shown",
        "--body",
        "{\"user\": \"shown-too\", \"password\": \"hush-5\"}",
        "-L",
    ];
    let url = format!("{url}?page=2&access_token=hush-6");
    let run = load(&site).url(&url).requests(20).with(&options).run();
    let document = serde_json::to_string(&run.document).unwrap();
    for text in [&run.stdout, &run.stderr, &document] {
        assert!(!text.contains(SECRET), "{text}");
    }
    let shown = format!("http://***@{}/?page=2&access_token=***", site.authority());
    assert!(
        run.stdout.contains(&format!(" test @ {shown}\n")),
        "{}",
        run.stdout
    );
    assert_eq!(run.document["plan"]["target"]["url"], shown.as_str());
    assert!(document.contains("X-Trace: shown"), "{document}");
    assert!(document.contains("shown-too"), "{document}");

    let json = site.folder.file_with("run.json", &document);
    for format in ["html", "md", "csv", "json", "junit", "github"] {
        let output = call(&["report", &json, "--format", format]).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(!output.stdout.contains(SECRET), "{format}");
        if format == "html" {
            assert!(
                output.stdout.contains("X-Api-Key: ***"),
                "the command to repeat it"
            );
        }
    }
    for request in requests(site) {
        // `a@b:hush:1`
        for line in [
            "Authorization: Basic YUBiOmh1c2g6MQ==",
            "X-Api-Key: hush-2",
            "Cookie: id=hush-3; b=hush-4",
            "X-Trace: shown",
        ] {
            assert!(request.contains(&format!("\r\n{line}\r\n")), "{request}");
        }
        assert!(request.starts_with("POST /?page=2&access_token=hush-6 HTTP/1.1\r\n"));
        assert!(request.ends_with("\"password\": \"hush-5\"}"), "{request}");
    }
}

#[test]
fn runs_that_differ_only_in_a_secret_have_the_same_plan() {
    let site = recording();
    let plan = |token: &str| {
        let (header, url) = (
            format!("Authorization: Bearer {token}"),
            format!("http://{token}@{}/", site.authority()),
        );
        let run = load(&site)
            .url(&url)
            .requests(5)
            .with(&["-H", &header])
            .run();
        run.document["plan"].clone()
    };
    assert_eq!(plan("one"), plan("another-one"));
    // An explicit header overrides the credentials of the URL.
    for request in requests(site) {
        assert_eq!(
            request.matches("Authorization: Bearer ").count(),
            1,
            "{request}"
        );
        assert!(!request.contains("Basic"), "{request}");
    }
}

#[test]
fn user_and_password_become_a_header_unless_it_is_given() {
    // `a%40b:hush:1`, which is not decoded, unlike in a URL.
    let (user, sent) = ("a%40b:hush:1", "Authorization: Basic YSU0MGI6aHVzaDox");
    let requests_file = "{\"path\":\"/file\"}\n";
    for (options, expected) in [
        (&["-u", user][..], sent),
        (
            &["--user", user, "-H", "authorization: Bearer hush"],
            "authorization: Bearer hush",
        ),
        (&["-u", user, "--http2"], ""),
        (&["-u", user, "--requests"], sent),
    ] {
        let site = recording();
        let file = site.folder.file_with("requests.jsonl", requests_file);
        let mut options = options.to_vec();
        if options.ends_with(&["--requests"]) {
            options.push(&file);
        }
        let run = load(&site)
            .url(&url_with_user(&site))
            .requests(5)
            .with(&options)
            .run();
        let document = serde_json::to_string(&run.document).unwrap();
        let encoded = sent.rsplit(' ').next().unwrap();
        for text in [&run.stdout, &run.stderr, &document] {
            assert!(!text.contains(SECRET) && !text.contains(encoded), "{text}");
        }
        for request in requests(site).iter().filter(|_| !expected.is_empty()) {
            assert!(
                request.contains(&format!("\r\n{expected}\r\n")),
                "{request}"
            );
            let headers = request.to_ascii_lowercase();
            assert_eq!(
                headers.matches("\r\nauthorization:").count(),
                1,
                "{request}"
            );
        }
    }
}

#[test]
fn a_local_fleet_and_samples_show_no_secret() {
    let site = recording();
    let samples = site.folder.file("samples.jsonl");
    let options = ["-u", "me:hush", "-H", "Cookie: id=hush"];
    for more in [
        &["--local", "2"][..],
        &["--sockets=", "--interval", "50ms", "--samples", &samples],
    ] {
        let run = load(&site).requests(40).with(&options).with(more).run();
        let document = serde_json::to_string(&run.document).unwrap();
        for text in [&run.stdout, &run.stderr, &document] {
            assert!(
                !text.contains(SECRET) && !text.contains("bWU6aHVzaA"),
                "{text}"
            );
        }
    }
    let samples = fs::read_to_string(&samples).unwrap();
    assert!(!samples.is_empty());
    assert!(
        !samples.contains(SECRET) && !samples.contains("bWU6aHVzaA"),
        "{samples}"
    );
    let requests = requests(site);
    assert_eq!(requests.len(), 80);
    for request in requests {
        assert!(
            request.contains("\r\nAuthorization: Basic bWU6aHVzaA==\r\n"),
            "{request}"
        );
    }
}

#[test]
fn a_user_without_a_password_is_refused_and_not_shown() {
    let output = call(&["-u", SECRET, "http://127.0.0.1:1/"]).finish();
    assert_eq!(output.code, Some(1), "{output:?}");
    assert_eq!(
        output.stderr,
        "wrkbench: --user: has no password (expected USER:PASSWORD)\n"
    );
}

#[test]
fn a_script_gets_the_typed_url_and_the_credentials_as_a_header() {
    let site = recording();
    let url = url_with_user(&site);
    let script = "function init(args)\n  assert(args[0]:find('hush%3A1@', 1, true), args[0])\n\
         assert(wrk.headers.Authorization == 'Basic YUBiOmh1c2g6MQ==')\n\
         assert(args[1] == 'http://u:hush@h/', args[1])\nend\n";
    let run = load(&site).url(&url).requests(5).script(script);
    let run = run.script_arguments(&["http://u:hush@h/"]).run();
    let document = serde_json::to_string(&run.document).unwrap();
    assert!(!document.contains("u:hush"), "{document}");
    for request in requests(site) {
        assert!(request.contains("\r\nAuthorization: Basic YUBiOmh1c2g6MQ==\r\n"));
    }
}

#[test]
fn secrets_are_kept_on_request() {
    let site = recording();
    let url = url_with_user(&site);
    let options = ["-H", "X-Api-Key: hush-2", "--keep-secrets"];
    let run = load(&site).url(&url).requests(5).with(&options).run();
    assert!(
        run.stdout.contains(&format!(" test @ {url}\n")),
        "{}",
        run.stdout
    );
    assert_eq!(run.document["plan"]["target"]["url"], url.as_str());
    assert_eq!(run.document["plan"]["request"]["headers"][0][1], "hush-2");
}

#[test]
fn only_the_owner_can_read_a_file_that_keeps_secrets() {
    let site = recording();
    let file = site.folder.file_with("kept.json", "an older result");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let run = load(&site)
        .requests(5)
        .with(&["--json", &file, "--keep-secrets"]);
    let output = run.output();
    assert_eq!(output.code, Some(0), "{output:?}");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Every file below a folder.
fn files(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found)
        } else {
            found.push(String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned())
        }
    }
}

#[test]
fn a_sweep_saves_no_secret_and_can_be_resumed() {
    let site = recording();
    let plan = |load: &str| {
        format!(
            "name = 'secret'\nseed = 1\nrounds = 1\nresults = 'results'\n\
             [load]\nthreads = 1\nrequests = 20\nheader = [\"Authorization: Bearer hush hush\", \
             'X-Trace: shown']\nbody = 'user=shown&password=hush'\n{load}\
             [[target]]\nname = 'origin'\nurl = '{}?token=hush'\n\
             [hooks]\nbefore = \"TOKEN='hush' sh -c ': -u me:hush http://u:hush@h/'\"\n\
             [[factor]]\nconnections = [1, 2]\n",
            url_with_user(&site)
        )
    };
    let sweep = |name: &str, load: &str, options: &[&str]| {
        let folder = site.folder.file(name);
        fs::create_dir_all(&folder).unwrap();
        let file = Path::new(&folder).join("plan.toml");
        fs::write(&file, plan(load)).unwrap();
        let journal = site.folder.file("journal");
        let mut command = program(&["sweep", file.to_str().unwrap(), "--journal", &journal]);
        command.args(options);
        let output = Process::start(command).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        let mut kept = Vec::new();
        let results = Path::new(&folder).join("results");
        if results.exists() {
            files(&results, &mut kept);
        }
        (output, kept)
    };
    let (dry, _) = sweep("a", "", &["--dry-run"]);
    assert!(!format!("{dry:?}").contains(SECRET), "{dry:?}");
    let (output, kept) = sweep("a", "", &[]);
    assert!(!format!("{output:?}").contains(SECRET), "{output:?}");
    assert!(kept.iter().any(|text| text.contains("X-Trace: shown")));
    for text in &kept {
        assert!(!text.contains(SECRET), "{text}");
    }
    sweep("a", "", &["--resume"]);
    // A folder that others can read, which was there before.
    let before = Path::new(&site.folder.file("b")).join("results");
    fs::create_dir_all(&before).unwrap();
    fs::set_permissions(&before, fs::Permissions::from_mode(0o755)).unwrap();
    let (_, kept) = sweep("b", "keep_secrets = true\n", &[]);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&before.join("trials")), 0o700);
    assert_eq!(mode(&before.join("experiment.json")), 0o600);
    assert!(kept.iter().any(|text| text.contains("Bearer hush hush")));
    for request in requests(site) {
        // The readiness check sends the user of the URL, the load its header.
        let has = |value: &str| request.contains(&format!("\r\nAuthorization: {value}\r\n"));
        assert!(
            has("Bearer hush hush") || has("Basic YUBiOmh1c2g6MQ=="),
            "{request}"
        );
    }
}

/// Everything that `report` and `table` make of a folder with results: what they print and write.
fn exports(site: &Site, results: &str) -> Vec<String> {
    let page = site.folder.file("page.html");
    let mut texts = Vec::new();
    let mut run = |arguments: &[&str]| {
        let output = call(arguments).finish();
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        texts.extend([output.stdout, output.stderr]);
    };
    run(&["report", results, "-o", &page]);
    for format in ["html", "md", "csv", "json", "junit", "github"] {
        run(&["report", results, "--format", format]);
    }
    for format in ["md", "csv", "json"] {
        run(&["table", results, "--format", format]);
    }
    texts.push(fs::read_to_string(page).unwrap());
    texts
}

/// The secret as it is, and the user of the site and two of the proxy as they are sent.
const SWEPT: [&str; 4] = [
    SECRET,
    "YUBiOmh1c2g6MQ",
    "cHJveHk6aXQncyBodXNo",
    "cHJveHk6aHVzaA",
];

#[test]
fn a_sweep_through_a_proxy_leaves_no_secret_in_its_files_and_in_what_is_made_of_them() {
    // Any server is a proxy to itself.
    let site = recording();
    let proxy = site.authority();
    let url = format!("{}?token=hush-2", url_with_user(&site));
    // The journal is removed at the end of a sweep, so the hook copies it.
    let copy = "cat journal/journal >>copied && : curl -x proxy:hush@h:1 -u me:hush";
    let file = |keep: bool| {
        format!(
            "name = 'secret'\nseed = 1\nrounds = 1\nresults = 'results'\n\
             [load]\nthreads = 1\nrequests = 20\nheader = ['X-Api-Key: hush-3', 'X-A: shown']\n\
             body = '{{\"password\": \"hush-4\", \"b\": \"shown\"}}'\n\
             proxy = '{proxy}'\nproxy_user = \"proxy:it's hush-5\"\nkeep_secrets = {keep}\n\
             [[target]]\nname = 'origin'\nurl = '{url}'\n[hooks]\nbefore = '{copy}'\n\
             [[factor]]\nname = 'conf'\nfile = 'server.conf'\ntemplate = 'server.tmpl'\n\
             levels = ['a', 'b']\n"
        )
    };
    let proxy_with_user = format!("proxy:hush@{proxy}");
    let words = [
        "-n20",
        "-t1",
        "--rounds=1",
        "-L",
        "connections",
        "1,2",
        "-HX-Api-Key: hush-3",
        "--body=password=hush-4&b=shown",
        "-x",
        &proxy_with_user,
        "--before",
        ": curl -x proxy:hush@h:1 -u me:hush",
        &url,
    ];
    for (number, keep, of_file) in [
        (0, false, true),
        (1, false, false),
        (2, true, true),
        (3, true, false),
    ] {
        let folder = site.folder.folder(&format!("sweep-{number}"));
        let path = |name: &str| Path::new(&folder).join(name);
        let mut command = program(&["sweep", "--no-try", "--journal=journal"]);
        command.current_dir(&folder).args(["--results", "results"]);
        if of_file {
            fs::write(path("server.conf"), "as it was").unwrap();
            fs::write(path("server.tmpl"), "{{level}}").unwrap();
            fs::write(path("plan.toml"), file(keep)).unwrap();
            command.arg("plan.toml");
        } else {
            command.args(words);
            command.args(keep.then_some("--keep-secrets"));
        }
        let output = Process::start(command).finish();
        assert_eq!(output.code, Some(0), "{output:?}");
        if of_file {
            fs::remove_file(path("plan.toml")).unwrap();
            assert!(path("copied").exists(), "there was a journal");
        }
        let mut texts = Vec::new();
        files(Path::new(&folder), &mut texts);
        texts.extend(exports(&site, path("results").to_str().unwrap()));
        texts.extend([output.stdout, output.stderr]);
        assert!(texts.iter().any(|text| text.contains("shown")));
        for secret in SWEPT {
            let found = texts.iter().find(|text| text.contains(secret));
            assert!(found.is_none() || keep, "{number}: {secret}: {found:?}");
        }
        for secret in ["hush%3A1@", "hush-2", "hush-3", "hush-4", "proxy:"] {
            let is_kept = texts.iter().any(|text| text.contains(secret));
            assert_eq!(is_kept, keep, "{number}: {secret}");
        }
    }
    let requests = requests(site);
    let loaded = requests.iter().filter(|it| it.starts_with("POST "));
    for request in loaded.clone() {
        for secret in [SWEPT[1], "hush-2", "hush-3", "hush-4"] {
            assert!(request.contains(secret), "{secret}: {request}");
        }
        let of_proxy = SWEPT[2..].iter().filter(|it| request.contains(**it));
        assert_eq!(of_proxy.count(), 1, "{request}");
    }
    assert_eq!(loaded.count(), 4 * 2 * 20);
}

#[test]
fn the_target_of_a_redirect_is_saved_without_its_secrets() {
    let site = site();
    let target = "/?status=302&header=Location:http://u:hush@h/%3Ftoken=hush-2";
    let run = load(&site).at(target).requests(3).run();
    let document = serde_json::to_string(&run.document).unwrap();
    for text in [&run.stdout, &run.stderr, &document] {
        assert!(!text.contains("u:hush"), "{text}");
    }
}
