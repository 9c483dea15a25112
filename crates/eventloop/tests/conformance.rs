//! One suite for every backend: the rules of `EventLoop`, on real sockets and in the simulator.
//!
//! A case is a generic function over a [`backend::Backend`], named after the rule it checks. The
//! lists below make a test of it for each backend. To add a backend, add one line to each macro.
//! The order of events is forced by what the two ends see of each other, never by sleeping, and
//! every wait ends after [`client::WAIT_LIMIT_NS`] at the latest.

#[path = "conformance/backend.rs"]
mod backend;
#[path = "conformance/client.rs"]
mod client;
#[path = "conformance/datagram_peer.rs"]
mod datagram_peer;
#[path = "conformance/datagram_promises.rs"]
mod datagram_promises;
#[path = "conformance/kernel_promises.rs"]
mod kernel_promises;
#[path = "conformance/peer.rs"]
mod peer;
#[path = "conformance/promises.rs"]
mod promises;

/// What every backend promises.
mod every_backend {
    pub(crate) use crate::datagram_promises::*;
    pub(crate) use crate::promises::*;
}

/// What every backend on a real kernel promises.
mod every_kernel_backend {
    pub(crate) use crate::datagram_promises::kernel::*;
    pub(crate) use crate::kernel_promises::*;
}

macro_rules! on_every_backend {
    ($($promise:ident,)*) => {
        mod on_epoll { $(#[test] fn $promise() { crate::every_backend::$promise::<crate::backend::OnEpoll>(); })* }
        mod on_uring { $(#[test] fn $promise() { crate::every_backend::$promise::<crate::backend::OnUring>(); })* }
        mod on_precise_epoll { $(#[test] fn $promise() { crate::every_backend::$promise::<crate::backend::Precise<crate::backend::OnEpoll>>(); })* }
        mod on_precise_uring { $(#[test] fn $promise() { crate::every_backend::$promise::<crate::backend::Precise<crate::backend::OnUring>>(); })* }
        mod on_simulator { $(#[test] fn $promise() { crate::every_backend::$promise::<crate::backend::OnSimulator>(); })* }
    };
}

macro_rules! on_every_kernel_backend {
    ($($promise:ident,)*) => {
        mod on_epoll_only { $(#[test] fn $promise() { crate::every_kernel_backend::$promise::<crate::backend::OnEpoll>(); })* }
        mod on_uring_only { $(#[test] fn $promise() { crate::every_kernel_backend::$promise::<crate::backend::OnUring>(); })* }
        mod on_precise_epoll_only { $(#[test] fn $promise() { crate::every_kernel_backend::$promise::<crate::backend::Precise<crate::backend::OnEpoll>>(); })* }
        mod on_precise_uring_only { $(#[test] fn $promise() { crate::every_kernel_backend::$promise::<crate::backend::Precise<crate::backend::OnUring>>(); })* }
    };
}

on_every_backend![
    bytes_are_sent_and_received,
    a_refused_connection_fails_with_econnrefused,
    a_failed_connection_leaves_the_loop_usable,
    a_reset_by_the_peer_ends_receiving_with_an_error,
    a_reset_with_sends_in_flight_is_reported,
    after_half_close_by_the_peer_we_can_still_send,
    sixteen_mib_in_an_owned_buffer_arrive_whole_and_in_order,
    sixteen_mib_of_shared_bytes_arrive_whole_and_in_order,
    queued_sends_keep_their_order_when_the_socket_is_full,
    many_small_sends_in_one_go_keep_their_order,
    sends_of_two_waits_keep_their_order_behind_a_full_socket,
    a_flood_of_other_operations_does_not_change_the_order,
    sends_between_waits_without_taking_completions_keep_their_order,
    sends_before_the_connection_is_established_are_delivered,
    data_before_the_peers_close_comes_first,
    unwanted_bytes_are_discarded_and_all_others_received,
    discarding_ends_where_the_unwanted_bytes_end,
    a_short_message_after_a_discarded_one_is_received,
    the_end_of_the_stream_within_unwanted_bytes_is_reported,
    a_socket_that_discards_can_be_closed_at_any_time,
    a_close_with_everything_in_flight_yields_one_closed_and_nothing_more,
    a_close_during_connect_ends_the_token_once,
    a_closed_token_takes_no_calls_and_reports_nothing,
    the_same_key_reconnects_at_once_a_thousand_times,
    more_data_than_receive_buffers_arrives_completely,
    a_deadline_passes_when_nothing_happens,
    a_deadline_in_the_past_returns_at_once,
    received_bytes_stay_until_the_next_completion_is_asked_for,
    only_sockets_with_timestamps_enabled_get_them,
    the_requested_parts_of_shared_bytes_are_sent,
    empty_payloads_are_harmless,
    a_thousand_sockets_work_at_once,
    an_abort_sends_reset,
    a_graceful_close_delivers_what_was_sent,
    a_graceful_close_delivers_what_is_queued_behind_other_sends,
    an_abort_behind_queued_sends_resets,
    a_close_behind_a_full_socket_does_not_wait_and_sends_nothing_out_of_order,
    owned_buffers_come_back_unchanged_and_once,
    ending_the_sending_side_delivers_what_was_queued_first,
    a_loop_is_dropped_with_operations_in_flight,
    datagrams_arrive_whole_and_in_order,
    a_burst_is_received_with_the_length_of_its_datagrams,
    a_batch_of_twenty_datagrams_arrives_as_twenty_datagrams,
    a_batch_arrives_the_same_without_segmentation_offload,
    batches_of_one_socket_leave_in_order,
    a_buffer_without_a_segment_is_one_datagram,
    an_empty_datagram_is_no_end_and_is_not_reported,
    the_largest_datagram_arrives_whole,
    a_datagram_that_is_too_long_is_lost_and_the_next_one_arrives,
    a_refused_datagram_is_reported_and_the_socket_goes_on,
    refusals_cost_no_datagram_and_every_buffer_comes_back,
    a_datagram_socket_with_everything_in_flight_ends_with_one_closed,
    datagrams_before_a_graceful_close_are_sent,
    a_closed_datagram_socket_takes_no_calls,
    ending_and_discarding_do_nothing_to_a_datagram_socket,
    received_datagrams_stay_until_the_next_completion_is_asked_for,
    only_datagram_sockets_with_timestamps_enabled_get_them,
    streams_and_datagrams_share_a_loop,
    a_loop_is_dropped_with_datagrams_in_flight,
];

on_every_kernel_backend![
    a_socket_taken_over_receives_and_wakes_a_loop_that_waits,
    what_is_submitted_behind_a_send_does_not_wait_for_its_completion,
    what_is_sent_after_a_wait_was_not_found_by_it,
    a_loop_that_is_dropped_delivers_what_was_closed_gracefully,
    an_unbound_unix_path_fails_with_enoent,
    a_unix_path_that_is_too_long_fails_with_enametoolong,
    a_unix_socket_whose_listener_is_gone_is_refused,
    bytes_are_sent_and_received_over_unix_sockets,
    a_reset_on_a_unix_socket_is_reported,
    a_connection_on_loopback_is_reported_with_the_time_it_was_established,
    a_unix_socket_hands_out_bytes_that_it_cannot_discard,
    discarded_bytes_have_timestamps_too,
    bytes_are_sent_and_received_over_ipv6,
    the_source_address_is_used,
    binding_to_an_address_of_another_machine_fails,
    a_wait_after_a_close_lasts_until_its_deadline,
    a_unix_socket_gives_no_timestamps_and_no_error,
    the_path_of_a_tcp_socket_is_known_until_it_is_closed,
    a_timestamp_is_when_the_kernel_received_the_bytes,
    timestamps_stay_enabled_between_connections,
    a_listener_takes_many_connections,
    what_had_arrived_and_is_not_found_by_a_wait_is_announced,
    an_accepted_connection_that_was_closed_at_once_is_reported,
    each_of_two_listeners_reports_its_own_key,
    a_burst_is_received_in_fewer_calls_than_datagrams,
    more_datagrams_than_receive_buffers_arrive,
    datagrams_behind_others_are_sent_before_completions_are_taken,
    datagrams_are_sent_and_received_over_ipv6,
    the_source_address_of_datagrams_is_used,
    datagrams_without_room_in_the_socket_are_counted,
    a_datagram_socket_with_an_address_of_another_machine_fails,
    a_listener_answers_each_sender_of_datagrams,
    a_listener_answers_each_sender_of_datagrams_over_ipv6,
    a_listener_receives_and_sends_bursts,
    a_closed_listener_of_datagrams_reports_nothing_but_that,
];
