//! Migration: a connection goes on from another local address (RFC 9000 section 9).

use quinn_proto::Connection;

use super::varint;
use crate::SessionError;

/// The transport parameter of a server that allows no migration (RFC 9000 section 18.2).
const DISABLE_ACTIVE_MIGRATION: u64 = 0x0c;

/// How long nothing may arrive after a move. In this time, several probes have been sent: the
/// interval between them begins at about 25 ms and doubles.
const SILENCE_NS: u64 = 1_000_000_000;

/// The same in round trips, where they are long.
const SILENCE_ROUND_TRIPS: u32 = 4;

/// The moves of a connection.
#[derive(Debug, Default)]
pub(super) struct Migration {
    /// The first move since the server was last heard.
    pending: Option<Pending>,
    /// Moves after which the server was heard.
    pub(super) followed: u64,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    /// Until when the server must be heard.
    until_ns: u64,
    /// Datagrams that had arrived before the move.
    received: u64,
}

impl Migration {
    /// The local address has changed.
    ///
    /// # Errors
    /// If the server forbids that.
    pub(super) fn begin(
        &mut self,
        connection: &mut Connection,
        now_ns: u64,
    ) -> Result<(), SessionError> {
        if is_forbidden(connection) {
            return Err(SessionError::MigrationForbidden);
        }
        connection.local_address_changed();
        let round_trips = connection.rtt().saturating_mul(SILENCE_ROUND_TRIPS);
        let round_trips_ns = u64::try_from(round_trips.as_nanos()).unwrap_or(u64::MAX);
        // A further move gives the server no more time: moves may follow each other faster.
        self.pending.get_or_insert_with(|| Pending {
            until_ns: now_ns.saturating_add(SILENCE_NS.max(round_trips_ns)),
            received: connection.stats().udp_rx.datagrams,
        });
        Ok(())
    }

    /// When [`Self::check`] must be called at the latest.
    pub(super) fn until_ns(&self) -> Option<u64> {
        self.pending.map(|pending| pending.until_ns)
    }

    /// Notes whether the server was heard after a move.
    ///
    /// # Errors
    /// If nothing has arrived for too long.
    #[inline]
    pub(super) fn check(
        &mut self,
        connection: &Connection,
        now_ns: u64,
    ) -> Result<(), SessionError> {
        let Some(Pending { until_ns, received }) = self.pending else {
            return Ok(());
        };
        if connection.stats().udp_rx.datagrams > received {
            self.pending = None;
            self.followed += 1;
        } else if now_ns >= until_ns {
            self.pending = None;
            return Err(SessionError::MigrationFailed);
        }
        Ok(())
    }
}

/// Whether the server allows no migration. The library reads that and keeps it to itself.
fn is_forbidden(connection: &Connection) -> bool {
    let Ok(Some(parameters)) = connection.crypto_session().transport_parameters() else {
        return false;
    };
    let mut bytes = Vec::new();
    parameters.write(&mut bytes);
    let mut rest = &bytes[..];
    while let Some(id) = varint::take(&mut rest)
        && let Some(length) = varint::take(&mut rest)
    {
        if id == DISABLE_ACTIVE_MIGRATION {
            return true;
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}
