//! The JSON object of a socket. Names are those that administrators' scripts have given to ss's
//! values; what they have no name for has that of the kernel's structure. `docs/telemetry.md` lists
//! them. What is not known is not there.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::socket::{CongestionInfo, Socket, SocketMemory, Timer};
use super::tcp_info::TcpInfo;

impl Socket {
    /// Our address and port as `ss -n` prints them: `127.0.0.1:80`, `[::1]:80`, `*:80` when IPv4 and
    /// IPv6 are taken, `%eth0` behind the address when bound to an interface, `*` for no port.
    #[must_use]
    pub fn local_address_port(&self) -> String {
        let interface = self.interface.as_deref();
        self.endpoint(self.local_address, interface, self.local_port)
    }

    /// The peer's, likewise.
    #[must_use]
    pub fn peer_address_port(&self) -> String {
        self.endpoint(self.peer_address, None, self.peer_port)
    }

    fn endpoint(&self, address: IpAddr, interface: Option<&str>, port: u16) -> String {
        let mut text = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) if self.is_v6_only != Some(true) => "*".to_owned(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        if let Some(interface) = interface {
            text.extend(["%", interface]);
        }
        match port {
            0 => text.push_str(":*"),
            // Writing to a string cannot fail.
            _ => _ = write!(text, ":{port}"),
        }
        text
    }
}

impl Serialize for Socket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Object(serializer.serialize_map(None)?);
        object.put("state", self.state.name())?;
        object.put("local_address_port", self.local_address_port())?;
        object.put("peer_address_port", self.peer_address_port())?;
        object.put_some("uid", self.uid)?;
        if let Some(info) = &self.info {
            object.put_info(info)?;
        }
        object.put_some("recv_q", self.recv_queue_bytes)?;
        object.put_some("send_q", self.send_queue_bytes)?;
        object.put_some("listen_queue", self.listen.map(|queue| queue.waiting))?;
        object.put_some("listen_limit", self.listen.map(|queue| queue.limit))?;
        object.put_some("congestion", self.congestion.as_deref())?;
        object.put_some("congestion_info", self.congestion_info)?;
        object.put_some("skmem", self.memory)?;
        object.put_some("timer", self.timer)?;
        object.put_some("inode", self.inode)?;
        object.put("cookie", self.cookie)?;
        object.put_some("cgroup_id", self.cgroup_id)?;
        object.put_some("interface", self.interface.as_deref())?;
        object.put_some("v6only", self.is_v6_only)?;
        object.put_some("tos", self.tos)?;
        object.put_some("tclass", self.tclass)?;
        object.put_some("class_id", self.class_id)?;
        object.put_some("shutdown", self.shutdown)?;
        object.put_some("fwmark", self.fwmark)?;
        object.put_some("ulp", self.upper_protocol.as_deref())?;
        object.0.end()
    }
}

/// An object that is being written.
struct Object<M>(M);

impl<M: SerializeMap> Object<M> {
    fn put(&mut self, name: &'static str, value: impl Serialize) -> Result<(), M::Error> {
        self.0.serialize_entry(name, &value)
    }

    fn put_some(
        &mut self,
        name: &'static str,
        value: Option<impl Serialize>,
    ) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.put(name, value))
    }

    fn put_info(&mut self, info: &TcpInfo) -> Result<(), M::Error> {
        self.put_scripts_names(info)?;
        self.put_kernels_names(info)
    }

    /// The names that scripts have.
    fn put_scripts_names(&mut self, info: &TcpInfo) -> Result<(), M::Error> {
        self.put("pmtu", info.pmtu_bytes)?;
        self.put("rcvmss", info.rcv_mss_bytes)?;
        self.put("advmss", info.advmss_bytes)?;
        self.put("cwnd", info.snd_cwnd)?;
        self.put_some("ssthresh", info.snd_ssthresh)?;
        self.put_some("bytessent", info.bytes_sent)?;
        self.put_some("bytesretrans", info.bytes_retrans)?;
        self.put_some("bytesacked", info.bytes_acked)?;
        self.put_some("bytesreceived", info.bytes_received)?;
        self.put_some("segsout", info.segs_out)?;
        self.put_some("segsin", info.segs_in)?;
        self.put_some("datasegsout", info.data_segs_out)?;
        self.put_some("datasegsin", info.data_segs_in)?;
        self.put("lastsnd", info.last_data_sent_ms)?;
        self.put("lastrcv", info.last_data_recv_ms)?;
        self.put("lastack", info.last_ack_recv_ms)?;
        self.put_some("delivered", info.delivered)?;
        self.put_some("busy", info.busy_time_us)?;
        self.put("retrans", info.retrans)?;
        self.put_some("dsackdups", info.dsack_dups)?;
        self.put_some("reordseen", info.reord_seen)?;
        self.put_some("rcvrtt", info.rcv_rtt_us)?;
        self.put("rcvspace", info.rcv_space_bytes)?;
        self.put("rcvssthresh", info.rcv_ssthresh_bytes)?;
        self.put_some("minrtt", info.min_rtt_us)?;
        self.put_some("sndwnd", info.snd_wnd_bytes)
    }

    /// `tcpi_` taken off, in the order of the structure.
    fn put_kernels_names(&mut self, info: &TcpInfo) -> Result<(), M::Error> {
        self.put_some("ca_state", info.ca_state_name())?;
        self.put("retransmits", info.retransmits)?;
        self.put("probes", info.probes)?;
        self.put("backoff", info.backoff)?;
        self.put("options", info.option_names().collect::<Vec<_>>())?;
        let scale = |scale: u8| info.has_window_scales().then_some(scale);
        self.put_some("snd_wscale", scale(info.snd_wscale))?;
        self.put_some("rcv_wscale", scale(info.rcv_wscale))?;
        self.put("delivery_rate_app_limited", info.delivery_rate_app_limited)?;
        self.put("fastopen_client_fail", info.fastopen_client_fail)?;
        self.put("rto", info.rto_us)?;
        self.put("ato", info.ato_us)?;
        self.put("snd_mss", info.snd_mss_bytes)?;
        self.put("unacked", info.unacked)?;
        self.put("sacked", info.sacked)?;
        self.put("lost", info.lost)?;
        self.put("fackets", info.fackets)?;
        self.put_some("rtt", info.rtt_us)?;
        self.put_some("rttvar", info.rtt_us.map(|_| info.rttvar_us))?;
        self.put("reordering", info.reordering)?;
        self.put("total_retrans", info.total_retrans)?;
        self.put_some("pacing_rate", info.pacing_rate_bytes_per_sec)?;
        self.put_some("max_pacing_rate", info.max_pacing_rate_bytes_per_sec)?;
        self.put_some("notsent_bytes", info.notsent_bytes)?;
        self.put_some("delivery_rate", info.delivery_rate_bytes_per_sec)?;
        self.put_some("rwnd_limited", info.rwnd_limited_us)?;
        self.put_some("sndbuf_limited", info.sndbuf_limited_us)?;
        self.put_some("delivered_ce", info.delivered_ce)?;
        self.put_some("rcv_ooopack", info.rcv_ooopack)?;
        self.put_some("rcv_wnd", info.rcv_wnd_bytes)?;
        self.put_some("rehash", info.rehash)?;
        self.put_some("total_rto", info.total_rto)?;
        self.put_some("total_rto_recoveries", info.total_rto_recoveries)?;
        self.put_some("total_rto_time", info.total_rto_time_ms)?;
        self.put_some("received_ce", info.received_ce)?;
        self.put_some("delivered_e1_bytes", info.delivered_e1_bytes)?;
        self.put_some("delivered_e0_bytes", info.delivered_e0_bytes)?;
        self.put_some("delivered_ce_bytes", info.delivered_ce_bytes)?;
        self.put_some("received_e1_bytes", info.received_e1_bytes)?;
        self.put_some("received_e0_bytes", info.received_e0_bytes)?;
        self.put_some("received_ce_bytes", info.received_ce_bytes)
    }
}

impl Serialize for SocketMemory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Object(serializer.serialize_map(None)?);
        object.put("rmem_alloc", self.rmem_alloc_bytes)?;
        object.put("rcvbuf", self.rcvbuf_bytes)?;
        object.put("wmem_alloc", self.wmem_alloc_bytes)?;
        object.put("sndbuf", self.sndbuf_bytes)?;
        object.put("fwd_alloc", self.fwd_alloc_bytes)?;
        object.put("wmem_queued", self.wmem_queued_bytes)?;
        object.put("optmem", self.optmem_bytes)?;
        object.put_some("backlog", self.backlog_bytes)?;
        object.put_some("drops", self.drops)?;
        object.0.end()
    }
}

impl Serialize for Timer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Object(serializer.serialize_map(None)?);
        object.put("name", self.kind.name())?;
        object.put("expires", self.expires_ms)?;
        object.put("retrans", self.retries)?;
        object.0.end()
    }
}

impl Serialize for CongestionInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = Object(serializer.serialize_map(None)?);
        match *self {
            Self::Bbr {
                bandwidth_bytes_per_sec,
                min_rtt_us,
                pacing_gain,
                cwnd_gain,
            } => {
                object.put("bw", bandwidth_bytes_per_sec)?;
                object.put("mrtt", min_rtt_us)?;
                object.put("pacing_gain", pacing_gain)?;
                object.put("cwnd_gain", cwnd_gain)?;
            }
            Self::Vegas {
                is_enabled,
                rtt_count,
                rtt_us,
                min_rtt_us,
            } => {
                object.put("enabled", is_enabled)?;
                object.put("rttcnt", rtt_count)?;
                object.put("rtt", rtt_us)?;
                object.put("minrtt", min_rtt_us)?;
            }
            Self::Dctcp {
                is_enabled,
                ce_state,
                alpha,
                acked_ecn_bytes,
                acked_total_bytes,
            } => {
                object.put("enabled", is_enabled)?;
                object.put("ce_state", ce_state)?;
                object.put("alpha", alpha)?;
                object.put("ab_ecn", acked_ecn_bytes)?;
                object.put("ab_tot", acked_total_bytes)?;
            }
        }
        object.0.end()
    }
}
