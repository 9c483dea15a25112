//! The file for a record of each request (`--records`).

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use outputs::records::{self, RecordFile, Written};
use plan::readable;
use results::records::{Clock, RecordForm};
use runner::{PreparedRun, RecordSender};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::outputs::unix_ns;
use super::result_file::{self, Opened, Readers};
use crate::console::Console;

/// The file of `--records` while the run goes on.
pub(super) struct Records {
    path: PathBuf,
    file: RecordFile,
}

/// Refuses a file that cannot be written, before anything is opened.
///
/// # Errors
/// Names the file.
pub(super) fn check(path: &Path) -> anyhow::Result<()> {
    result_file::check_destination("--records", path)
}

impl Records {
    /// [`Self::open`] if there is a path.
    ///
    /// # Errors
    /// As there.
    pub(super) fn open_given(
        path: Option<&Path>,
        prepared: &dyn PreparedRun,
        readers: Readers,
    ) -> anyhow::Result<Option<Self>> {
        path.map(|path| Self::open(path, prepared, readers))
            .transpose()
    }

    /// [`Self::finish`] if there is a file.
    ///
    /// # Errors
    /// As there.
    pub(super) fn finish_given(
        records: Option<Self>,
        is_quiet: bool,
        console: &Console,
    ) -> anyhow::Result<()> {
        records.map_or(Ok(()), |records| records.finish(is_quiet, console))
    }

    /// Creates or empties the file, for the records of this run.
    ///
    /// # Errors
    /// When it cannot be written.
    fn open(path: &Path, prepared: &dyn PreparedRun, readers: Readers) -> anyhow::Result<Self> {
        let form = RecordForm::of(path).with_context(|| format!("--records {path:?}"))?;
        let file = opened(path, readers)?;
        let layout = records::layout_of(
            prepared.plan(),
            prepared.request_names(),
            prepared.has_conversations(),
        );
        let clock = Clock {
            unix_ns: unix_ns(),
            monotonic_ns: runner::monotonic_ns(),
        };
        let file = RecordFile::start(file, form, &layout, clock);
        Ok(Self {
            path: path.to_owned(),
            file: file.context("--records: cannot start a thread")?,
        })
    }

    /// For the workers of the run.
    pub(super) fn sender(&self) -> RecordSender {
        self.file.sender()
    }

    /// The run is over: waits until everything is written, and prints what was lost.
    ///
    /// # Errors
    /// When writing has failed.
    fn finish(self, is_quiet: bool, console: &Console) -> anyhow::Result<()> {
        let written = self.file.finish();
        let path = &self.path;
        if let Some(text) = lost(&written).filter(|_| !is_quiet) {
            console.tell(format_args!("warning: --records {path:?}: {text}"));
        }
        let Written {
            unwritten, failure, ..
        } = &written;
        match failure {
            None => Ok(()),
            Some(error) => {
                let all = readable::counted(written.all(), "record");
                let missing = readable::count(*unwritten);
                bail!("--records {path:?}: {missing} of {all} are missing: {error}")
            }
        }
    }
}

/// What was lost because the file could not be written fast enough.
fn lost(written: &Written) -> Option<String> {
    let all = readable::counted(written.all(), "record");
    let lost = readable::count(written.lost);
    (written.lost > 0).then(|| {
        format!(
            "{lost} of {all} were lost: requests ended faster than records could be written (write \
             to a faster disk, or leave the load generator another CPU)"
        )
    })
}

/// The file, and whether nobody else writes to it.
fn opened(path: &Path, readers: Readers) -> anyhow::Result<(File, bool)> {
    check(path)?;
    match result_file::open(path, readers) {
        Ok(Opened::Own(file)) => Ok((file, true)),
        Ok(Opened::Shared(file)) => {
            // It was opened so that a pipe without a reader is found. Its writer may wait.
            let flags = fcntl_getfl(&file).context("--records")?;
            fcntl_setfl(&file, flags - OFlags::NONBLOCK).context("--records")?;
            Ok((file, false))
        }
        Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
            bail!("--records {path:?}: nobody reads the pipe (start its reader first)")
        }
        Err(error) => Err(error).context(format!("--records {path:?}: cannot be written")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_records_are_told_with_their_number() {
        let written = Written {
            records: 1_999,
            lost: 1_001,
            ..Written::default()
        };
        let text = lost(&written).expect("some were lost");
        assert!(
            text.starts_with("1,001 of 3,000 records were lost: "),
            "{text}"
        );
        assert_eq!(lost(&Written::default()), None);
    }
}
