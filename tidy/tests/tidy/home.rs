//! The public home of the project: `repository` in the root manifest. Every other place that names
//! an address of the project is compared with that line.

/// The forge of the home.
const FORGE: &str = "https://github.com/";

/// What comes before `owner/name` where a file names a home.
const BEGINNINGS: [&str; 5] = [
    "github.com/",
    "raw.githubusercontent.com/",
    "ghcr.io/",
    "uses: ",
    "REPOSITORY=",
];

/// What comes before `owner/tap`, whose owner is that of the home.
const TAP: &str = "brew install ";

/// What the project is called, wherever its home is.
const NAME: &str = "wrkbench";

/// An address of the project.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// As it is written.
    pub(crate) text: String,
    pub(crate) is_home: bool,
}

/// `owner/name` of the home, from the root manifest.
pub(crate) fn of(manifest: &str) -> Option<&str> {
    let mut lines = manifest.lines();
    let address = lines.find_map(|line| line.strip_prefix("repository = \""))?;
    address.strip_suffix('"')?.strip_prefix(FORGE)
}

/// The addresses of the project in a line.
pub(crate) fn addresses(line: &str, home: &str) -> Vec<Address> {
    let owner = home.split('/').next().unwrap_or_default();
    let mut found = Vec::new();
    for beginning in BEGINNINGS.iter().chain([&TAP]) {
        for rest in line.split(beginning).skip(1) {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "-_/".contains(c);
            let path = rest.split(|c| !is_part(c)).next().unwrap_or_default();
            let mut parts = path.split('/');
            let (Some(of), Some(name)) = (parts.next(), parts.next()) else {
                continue;
            };
            if of == NAME || name == NAME || of == owner {
                found.push(Address {
                    text: format!("{beginning}{of}/{name}"),
                    is_home: of == owner && (*beginning == TAP || home.ends_with(name)),
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_is_the_repository_of_the_manifest() {
        let manifest = "version = \"1\"\nrepository = \"https://github.com/them/it\"\n";
        assert_eq!(of(manifest), Some("them/it"));
        assert_eq!(of("repository = \"https://example.com/x\"\n"), None);
    }

    #[test]
    fn every_form_of_an_address_is_compared_with_the_home() {
        for line in [
            format!("see https://github.com/{NAME}/{NAME}."),
            format!("homepage \"https://github.com/{NAME}/{NAME}.git\""),
            format!("image: ghcr.io/{NAME}/{NAME}:0.1.0"),
            format!("- uses: {NAME}/{NAME}@v0.1.0"),
            format!("REPOSITORY={NAME}/{NAME}"),
            format!("brew install {NAME}/tap/{NAME}"),
        ] {
            let is_home = |home: &str| {
                let found = addresses(&line, home);
                assert_eq!(found.len(), 1, "{line}");
                found[0].is_home
            };
            assert!(is_home("wrkbench/wrkbench"), "{line}");
            assert!(!is_home("them/wrkbench"), "{line}");
        }
    }

    #[test]
    fn addresses_of_other_projects_are_left_alone() {
        for line in [
            "https://github.com/wg/wrk and https://github.com/centminmod/wrk",
            "- uses: actions/checkout@1",
            "github.com/",
            "curl https://example.com/wrkbench/x",
        ] {
            assert_eq!(addresses(line, "them/wrkbench"), [], "{line}");
        }
    }
}
