//! The JSON object of a socket. Names are those that scripts of administrators use for ss's values;
//! other values have the name in the kernel's structure. [`super::FIELDS`] lists them. Unknown
//! values are absent.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv6Addr};

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::socket::Socket;
use super::tcp_info::TcpInfo;

impl Socket {
    /// Our address and port as `ss -n` prints them: `127.0.0.1:80`, `[::1]:80`, `*:80` for a socket
    /// that accepts both IPv4 and IPv6, `%eth0` after the address when bound to an interface, `*`
    /// for no port.
    #[must_use]
    pub fn local_address_port(&self) -> String {
        let interface = self.interface.as_deref();
        self.endpoint(self.local_address, interface, self.local_port)
    }

    /// The peer's address and port in the same form.
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

/// An object being written.
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

    /// The names that scripts use.
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

    /// The kernel's names without `tcpi_`, in the order of the structure.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Map, Value, json};

    use super::*;
    use crate::sockets::FIELDS;
    use crate::sockets::socket::{CongestionInfo, ListenQueue, Timer, TimerKind};
    use crate::sockets::{TcpState, parse_datagram};

    fn object(socket: &Socket) -> Map<String, Value> {
        match serde_json::to_value(socket).unwrap() {
            Value::Object(object) => object,
            other => panic!("{other}"),
        }
    }

    fn recorded() -> Socket {
        let recording = include_bytes!("../../tests/data/sockets/ipv4.bin");
        let sockets = parse_datagram(recording);
        let connection = sockets.into_iter().find(|socket| socket.info.is_some());
        connection.unwrap()
    }

    /// A socket with all values, even those that exclude each other.
    fn everything() -> Socket {
        let mut info = TcpInfo::parse(&[1; 280]).unwrap();
        info.options = 0xff;
        Socket {
            info: Some(info),
            listen: Some(ListenQueue {
                waiting: 1,
                limit: 2,
            }),
            timer: Some(Timer {
                kind: TimerKind::Persist,
                expires_ms: 200,
                retries: 3,
            }),
            is_v6_only: Some(true),
            interface: Some("eth0".to_owned()),
            uid: Some(33),
            inode: Some(1),
            recv_queue_bytes: Some(1),
            send_queue_bytes: Some(2),
            congestion: Some("bbr".to_owned()),
            congestion_info: Some(CongestionInfo::Dctcp {
                is_enabled: true,
                ce_state: 0,
                alpha: 1024,
                acked_ecn_bytes: 1,
                acked_total_bytes: 2,
            }),
            tos: Some(0),
            tclass: Some(0),
            class_id: Some(0),
            shutdown: Some(0),
            fwmark: Some(0),
            cgroup_id: Some(1),
            upper_protocol: Some("tls".to_owned()),
            ..recorded()
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_field_and_no_others() {
        let documented: BTreeSet<_> = FIELDS.iter().map(|(name, _)| *name).collect();
        assert_eq!(FIELDS.len(), documented.len(), "a row is there twice");
        let object = object(&everything());
        // It belongs to a repeated list, not to a socket.
        let with_time = object.keys().map(String::as_str).chain(["time"]);
        assert_eq!(documented, with_time.collect());
        // Members of nested objects.
        for inner in ["skmem", "timer", "congestion_info"] {
            let (_, meaning) = FIELDS.iter().find(|(name, _)| *name == inner).unwrap();
            for name in object[inner].as_object().unwrap().keys() {
                assert!(meaning.contains(name), "{inner}.{name}");
            }
        }
    }

    #[test]
    fn the_names_that_scripts_use_are_present() {
        let names = "state local_address_port peer_address_port uid pmtu rcvmss advmss cwnd \
                     ssthresh \
                     bytessent bytesretrans bytesacked bytesreceived segsout segsin datasegsout \
                     datasegsin lastsnd lastrcv lastack delivered busy retrans dsackdups reordseen \
                     rcvrtt rcvspace rcvssthresh minrtt sndwnd";
        let object = object(&everything());
        for name in names.split_whitespace() {
            let value = &object[name];
            let is_text = ["state", "local_address_port", "peer_address_port"].contains(&name);
            assert_eq!(value.is_string(), is_text, "{name}");
            assert_eq!(value.is_u64(), !is_text, "{name}");
        }
    }

    #[test]
    fn unknown_values_are_absent() {
        let mut info = TcpInfo::parse(&[0; 104]).unwrap();
        info.rtt_us = None;
        let socket = Socket {
            info: Some(info),
            uid: None,
            ..recorded()
        };
        let object = object(&socket);
        for absent in [
            "uid",
            "rtt",
            "rttvar",
            "rcvrtt",
            "minrtt",
            "bytessent",
            "bytesacked",
            "sndwnd",
            "snd_wscale",
            "pacing_rate",
            "total_rto",
            "listen_queue",
            "interface",
        ] {
            assert!(!object.contains_key(absent), "{absent}");
        }
        assert!(object.values().all(|value| !value.is_null()));
        // A count of zero is written.
        assert_eq!(object["total_retrans"], 0);
        assert_eq!(object["options"], json!([]));
    }

    #[test]
    fn endpoints_are_printed_as_in_ss() {
        let written =
            |local: &str, port: u16, interface: Option<&str>, is_v6_only: Option<bool>| {
                Socket {
                    local_address: local.parse().unwrap(),
                    local_port: port,
                    interface: interface.map(str::to_owned),
                    is_v6_only,
                    state: TcpState::Listen,
                    ..recorded()
                }
                .local_address_port()
            };
        assert_eq!(written("127.0.0.1", 80, None, None), "127.0.0.1:80");
        assert_eq!(written("0.0.0.0", 0, None, None), "0.0.0.0:*");
        assert_eq!(
            written("127.0.0.53", 53, Some("lo"), None),
            "127.0.0.53%lo:53"
        );
        assert_eq!(written("::1", 80, None, None), "[::1]:80");
        assert_eq!(written("::", 80, None, Some(false)), "*:80");
        assert_eq!(written("::", 80, None, Some(true)), "[::]:80");
        assert_eq!(
            written("fe80::1", 80, Some("eth0"), None),
            "[fe80::1]%eth0:80"
        );
        assert_eq!(
            written("::ffff:192.0.2.1", 80, None, None),
            "[::ffff:192.0.2.1]:80"
        );
    }
}
