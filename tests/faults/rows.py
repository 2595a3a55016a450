"""Every fault that must not reach the training job, and the tests elsewhere that inject it.

A test of this room names the rows that it injects itself: `@pytest.mark.fault(38)`. A row needs one or the other, and
what is pointed to must be there: `test_every_row_is_injected.py`. `make faults` runs both kinds:
`python -m tests.faults.rows` prints what pytest is to be given.
"""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A fault in a few words, and `file::test` for each test elsewhere, the file below `tests/`."""

    fault: str
    elsewhere: tuple[str, ...] = ()


ROWS: dict[int, Row] = {
    1: Row("a listener, probe or collector raises", (
        "probe/test_compile_disturbed.py::test_a_probe_that_fails_is_contained_and_finds_its_way_back",
        "agent/test_plugins_in_the_agent.py::test_a_collector_that_raises_is_down",
        "plugin/test_guard.py::test_one_line_a_minute_at_most",
    )),
    2: Row("one source fails", (
        "agent/test_plugins_in_the_agent.py::test_a_collector_that_raises_is_down",
        "agent/test_plugins_in_the_agent.py::test_an_exporter_that_raises_is_down_and_counted",
    )),
    3: Row("a source hangs for a minute", (
        "agent/test_plugins_in_the_agent.py::test_a_collector_that_hangs_is_down_and_the_scrape_answers_at_once",
    )),
    4: Row("a plugin cannot be imported, is of a wrong type, has another's name", (
        "plugin/test_discovery.py::test_a_plugin_that_cannot_be_used_is_reported_and_the_others_load",
        "plugin/test_discovery.py::test_two_plugins_of_one_name_are_reported_and_the_first_is_used",
        "cli/test_plugins_command.py::test_a_broken_plugin_is_reported_and_the_others_are_listed",
    )),
    5: Row("a plugin raises SystemExit or KeyboardInterrupt", (
        "plugin/test_guard.py::test_what_a_plugin_raises_is_contained_and_counted",
        "plugin/test_guard.py::test_a_keyboard_interrupt_is_the_users",
        "plugin/test_discovery.py::test_ctrl_c_while_loading_reaches_the_user",
    )),
    6: Row("memory_stats raises, is None, lacks keys", (
        "plugins/memory/test_devices.py::test_a_device_that_tells_nothing_has_no_figures",
        "plugins/memory/test_devices.py::test_a_backend_that_fails_is_let_alone_for_a_while",
        "plugins/memory/test_devices.py::test_nothing_of_jax_is_called_while_a_backend_is_let_alone",
    )),
    7: Row("the OTLP endpoint refuses", (
        "otel/test_delivery.py::test_an_endpoint_that_refuses_loses_the_oldest_and_says_so",
    )),
    8: Row("the OTLP endpoint accepts and never answers", (
        "otel/test_delivery.py::test_a_black_hole_delays_nobody_and_the_end_by_no_more_than_allowed",
        "otel/test_delivery.py::test_a_request_begun_at_the_end_is_over_by_the_deadline",
        "safety/test_how_a_job_ends.py::test_a_killed_job_leaves_no_port_and_no_process_and_its_caller_does_not_wait",
    )),
    9: Row("the OTLP endpoint answers 429, 503, 400, 413", (
        "otel/test_delivery.py::test_a_receiver_that_asks_for_time_gets_it",
        "otel/test_delivery.py::test_at_the_end_a_receiver_that_asks_for_time_gets_what_is_left",
        "otel/test_delivery.py::test_a_refused_request_is_dropped_counted_and_not_repeated",
        "otel/test_delivery.py::test_spans_that_are_too_many_are_split",
        "otel/test_delivery.py::test_metrics_that_are_too_many_are_split",
    )),
    10: Row("one exporter is stuck", (
        "agent/test_plugins_in_the_agent.py::test_an_exporter_that_hangs_is_down_after_a_while_and_starves_nobody",
        "agent/test_plugins_in_the_agent.py::test_what_a_slow_exporter_loses_is_counted_and_shown",
    )),
    11: Row("a million events at once", (
        "flow/test_ring.py::test_very_many_events_are_counted_exactly_and_take_no_more_memory_than_the_capacity",
        "flow/test_ring.py::test_drops_are_exact_when_many_threads_emit_while_one_drains",
    )),
    12: Row("ten thousand function names", (
        "derive/test_limits.py::test_ten_thousand_function_names_stay_within_the_limit_and_lose_no_compile",
    )),
    13: Row("a label of a megabyte, of quotes, newlines, surrogates", (
        "derive/test_limits.py::test_a_label_of_a_megabyte_or_of_no_text_is_cut_and_told_from_others",
        "derive/test_limits.py::test_any_name_at_all_reaches_the_strict_parser_escaped",
        "prometheus/test_render.py::test_any_resource_parses_strictly",
    )),
    14: Row("NaN, infinite, negative and zero amounts", (
        "derive/test_any_stream.py::test_counters_never_fall_and_every_snapshot_keeps_its_promises",
        "derive/test_any_stream.py::test_amounts_that_are_no_amounts_are_refused_with_a_reason",
        "probe/test_amounts_and_names.py::test_what_is_no_number_is_refused_where_it_is_given",
        "probe/test_amounts_and_names.py::test_a_recorded_value_of_any_class_raises_nothing",
    )),
    15: Row("idle sockets, slow readers, many scrapes at once", (
        "prometheus/test_server_under_clients.py::test_idle_sockets_and_a_slow_reader_do_not_keep_fifty_scrapes_waiting",
        "prometheus/test_server_under_clients.py::test_over_the_cap_a_client_is_closed_and_later_others_are_served",
        "prometheus/test_server_under_clients.py::test_a_client_without_a_request_is_closed_in_time",
    )),
    16: Row("a TLS handshake that stalls", (
        "prometheus/test_tls.py::test_handshakes_that_stall_keep_nobody_waiting",
        "prometheus/test_tls.py::test_a_handshake_that_stalls_makes_room_for_a_new_client",
    )),
    17: Row("a wrong or missing token", (
        "prometheus/test_credentials.py::test_without_the_token_every_path_answers_the_same",
        "prometheus/test_credentials.py::test_nothing_but_the_token_is_admitted",
    )),
    18: Row("the port is taken", (
        "prometheus/test_address.py::test_ranks_that_start_at_once_get_ports_of_their_own",
        "prometheus/test_exporter.py::test_in_kubernetes_a_taken_port_fails_the_exporter",
    )),
    19: Row("a fork while being scraped", (
        "safety/test_how_a_job_ends.py::test_after_a_fork_nothing_of_ours_runs_in_the_child",
        "probe/test_amounts_and_names.py::test_a_forked_child_keeps_nothing_that_was_recorded",
        "profiler/test_profiler_faults.py::test_a_forked_child_has_sessions_of_its_own_as_without_us",
    )),
    20: Row("SIGTERM, SIGKILL", (
        "safety/test_how_a_job_ends.py::test_sigterm_ends_the_job_at_once_and_the_agent_after_it",
        "end_to_end/test_outputs.py::test_after_sigkill_the_lines_are_whole_the_port_is_closed_and_nobody_is_left",
        "jsonl/test_jsonl.py::test_the_file_of_a_killed_process_is_read_line_by_line",
    )),
    21: Row("the wall clock jumps an hour", ("safety/test_the_wall_clock_jumps.py::test_seconds_are_as_they_were",)),
    22: Row("a scrape during garbage collection, marks in finalizers and signal handlers", (
        "flow/test_ring.py::test_emit_from_a_finalizer_and_from_a_signal_handler_while_draining_does_not_deadlock",
        "probe/test_which_executable_ran.py::test_a_finalizer_that_compiles_may_run_while_an_executable_is_noted",
    )),
    23: Row("the user clears JAX's listeners", (
        "probe/test_compile_disturbed.py::test_listeners_that_somebody_cleared_are_put_back_even_inside_a_trace",
    )),
    24: Row("the user's own profiler session", (
        "profiler/test_user_sessions.py::test_ours_gives_way_to_the_users",
        "profiler/test_user_sessions.py::test_ours_is_skipped_while_the_users_is_there_and_made_after_it",
        "profiler/test_profiler_faults.py::test_a_window_that_is_due_while_the_user_has_a_session_is_skipped_and_counted_once",
    )),
    25: Row("instrument() and shutdown() in any order and number", (
        "safety/test_beginning_and_ending.py::test_in_any_order_and_number_nothing_accumulates",
    )),
    26: Row("a disk that is full or read-only", (
        "jsonl/test_jsonl.py::test_a_full_disk_raises_and_leaves_whole_lines_and_what_follows_is_written",
        "plugin/test_files.py::test_a_full_disk_leaves_the_old_file_and_no_draft",
        "safety/test_out_of_memory.py::test_where_the_run_has_no_folder_the_report_is_in_the_systems_temporary_directory",
    )),
    27: Row("truncated, corrupted and foreign traces and modules", (
        "trace/test_corrupted.py::test_random_bytes_never_raise_anything_else",
        "trace/test_corrupted.py::test_corrupted_bytes_never_raise_anything_else",
        "trace/test_corrupted.py::test_a_truncated_trace_is_refused",
        "cost_model/test_decode.py::test_corrupted_bytes_never_raise_anything_else",
        "agent/test_agent.py::test_a_corrupted_module_has_no_cost_and_the_reason_is_shown",
        "agent/test_windows.py::test_what_is_no_trace_is_unreadable_and_said_once",
    )),
    28: Row("64 threads compile at once", (
        "probe/test_compile.py::test_sixty_four_threads_compile_at_once_and_each_compile_is_counted_once_with_its_own_executable",
        "probe/test_causes_leave_the_job_alone.py::test_threads_that_compile_at_once_get_each_their_own_cause",
    )),
    29: Row("a function raises, is cancelled, returns no array or deleted ones", (
        "probe/test_watched.py::test_an_exception_is_the_same_with_the_same_frames_and_the_step_has_failed",
        "probe/test_watched.py::test_outputs_of_any_kind_pass_through",
    )),
    30: Row("the agent is killed, stops, cannot start, has no memory", (
        "safety/test_the_agent_is_lost.py::test_an_agent_that_cannot_be_started_is_said_once",
        "safety/test_the_agent_is_lost.py::test_an_agent_that_is_killed_is_started_again_so_often_and_then_given_up",
        "safety/test_the_agent_is_lost.py::test_an_agent_that_stops_is_not_waited_for_and_memory_is_bounded",
        "safety/test_the_last_snapshot.py::test_a_suspended_agent_is_not_waited_for_and_does_not_stay_behind",
    )),
    31: Row("the job is killed, or exits while the endpoint hangs", (
        "safety/test_how_a_job_ends.py::test_a_killed_job_leaves_no_port_and_no_process_and_its_caller_does_not_wait",
    )),
    32: Row("the job's output is captured by a caller", (
        "safety/test_how_a_job_ends.py::test_a_killed_job_leaves_no_port_and_no_process_and_its_caller_does_not_wait",
    )),
    33: Row("Ctrl-C at the terminal", (
        "safety/test_how_a_job_ends.py::test_ctrl_c_is_for_the_job_and_not_for_the_agent",
    )),
    34: Row("the interpreter exits while a thread is near a JAX call", (
        "safety/test_how_a_job_ends.py::test_exit_in_the_middle_of_sampling_is_as_without",
        "safety/test_how_a_job_ends.py::test_asking_an_array_while_the_job_deletes_it_does_no_harm",
    )),
    35: Row("user types whose methods raise or are slow", (
        "probe/test_causes_leave_the_job_alone.py::test_nothing_of_the_users_is_printed_compared_or_hashed",
        "probe/test_watched.py::test_values_of_the_users_types_are_neither_printed_nor_compared",
        "probe/test_watched_is_the_function.py::test_a_pytree_of_the_user_without_attributes_is_asked_for_none",
    )),
    36: Row("the script configures JAX after instrument(), or under a launcher", (
        "safety/test_the_job_is_as_without.py::test_what_the_script_configures_after_instrument_works",
        "cli/test_run_with_jax.py::test_the_script_and_its_jax_are_as_without",
        "cli/test_run_with_jax.py::test_a_script_that_observes_itself_can_configure_its_jax_afterwards",
    )),
    37: Row("events, scrapes, starts and stops without end", (
        "prometheus/test_server.py::test_a_thousand_scrapes_and_fifty_starts_leave_nothing_behind",
        "otel/test_delivery.py::test_starting_and_stopping_leaves_no_thread_and_no_connection",
    )),
    38: Row("the job waits for its children until there are none"),
    39: Row("forks while instrument() starts"),
    40: Row("exceptions of signal handlers, ten thousand", (
        "probe/test_signal_handlers.py::test_in_steps_phases_and_watched_calls",
        "probe/test_signal_handlers.py::test_where_a_profiler_session_begins_and_is_dropped",
        "probe/test_signal_handlers.py::test_in_a_storm_of_signals_every_one_is_heard_and_later_steps_are_as_ever",
        "plugins/test_garbage_collection.py::test_after_stop_nothing_is_told",
    )),
    41: Row("trainers that watch their own methods are dropped", (
        "probe/test_watched_functions_live_as_without.py::test_a_trainer_that_watches_its_own_method_is_freed_as_any_circle",
        "probe/test_watched_functions_live_as_without.py::test_a_function_that_is_let_go_of_is_freed_at_once_with_all_that_it_holds",
        "probe/test_watched_functions_live_as_without.py::test_many_watches_leave_nothing_behind",
    )),
    42: Row("each method of a plugin hangs for a minute, or raises"),
    43: Row("a plugin with ten thousand series", (
        "derive/test_limits.py::test_a_plugin_with_ten_thousand_series_takes_nobody_elses_place",
    )),
    44: Row("no home, no user name, a home that is read-only"),
    45: Row("links planted at each path that is written", (
        "plugin/test_files.py::test_a_planted_link_is_replaced_and_not_written_through",
        "plugin/test_files.py::test_links_planted_under_the_name_of_a_draft_are_not_followed",
        "prometheus/test_service_discovery.py::test_no_planted_link_is_written_through",
    )),
    46: Row("the token's file hangs when it is opened", (
        "prometheus/test_files_that_hang.py::test_the_page_goes_on_where_the_files_hang",
        "prometheus/test_files_that_hang.py::test_where_the_tokens_file_does_not_answer_at_the_start_nothing_is_served",
    )),
    47: Row("the job ends by SIGTERM, SIGKILL, abort: its last summary"),
    48: Row("the job's tests replace clocks and open"),
    49: Row("a request for a foreign host", (
        "prometheus/test_hosts.py::test_a_foreign_name_is_misdirected_and_told_what_to_do",
    )),
    50: Row("one agent after the other while the endpoint hangs: no zombies"),
    51: Row("snapshots that nobody waits for"),
    52: Row("a plugin with the name of a built-in one", (
        "plugin/test_discovery.py::test_a_third_party_does_not_displace_a_built_in_plugin",
    )),
    53: Row("metrics that share a name on the page", (
        "model/test_metrics.py::test_metrics_that_would_share_a_name_on_the_page_are_refused_whoever_comes_first",
        "model/test_metrics.py::test_what_is_declared_reaches_a_strict_parser_each_under_its_own_name",
    )),
    54: Row("bare line feeds, what is no HTTP, q=0", (
        "prometheus/test_requests.py::test_what_is_no_request_is_refused_in_one_line",
        "prometheus/test_negotiation.py::test_who_refuses_openmetrics_or_names_nothing_known_gets_the_text_format",
    )),
    55: Row("a certificate that expires", (
        "prometheus/test_tls.py::test_a_new_certificate_is_shown_to_those_who_connect_from_then_on",
    )),
    56: Row("the same function watched again, and by a second observer", (
        "probe/test_watched_functions_live_as_without.py::test_watching_again_gives_the_same_object_for_as_long_as_the_function_lives",
        "probe/test_watched_functions_live_as_without.py::test_a_second_observer_sees_what_the_first_watched",
    )),
    57: Row("a pytree with arrays is watched", (
        "probe/test_watched_functions_live_as_without.py::test_a_pytree_with_arrays_is_given_back_as_it_is_with_a_warning",
    )),
    58: Row("frames and __wrapped__ of a watched function", (
        "probe/test_watched_functions_live_as_without.py::test_messages_and_source_lines_of_jax_name_the_users_line",
        "probe/test_watched_functions_live_as_without.py::test_a_traceback_shows_no_line_of_ours",
        "probe/test_watched_is_the_function.py::test_it_shows_the_same_as_the_function",
        "probe/test_watched_is_the_function.py::test_warnings_and_logs_name_the_line_that_they_name_without",
    )),
    59: Row("record() of a traced value", (
        "probe/test_watched_functions_live_as_without.py::test_a_traced_value_is_refused_at_once",
    )),
    60: Row("modules beside the script, of every name that JAX does not load; finders that raise", (
        "cli/test_run_with_jax.py::test_where_the_script_forbids_later_imports_it_runs_unobserved",
    )),
    61: Row("another version of a library on `sys.path` after the start"),
    62: Row("requests that are read in two ways, take long or fill memory", (
        "prometheus/test_hostile_requests.py::test_it_is_answered_once_and_nothing_that_follows_is_served",
        "prometheus/test_hostile_requests.py::test_many_of_them_at_once_hold_up_no_other",
        "prometheus/test_negotiation.py::test_a_header_of_200_kilobytes_is_read_in_linear_time",
    )),
    63: Row("the job serves Prometheus itself, on the port of OpenTelemetry's variables"),
    64: Row("escape sequences, line ends, marks that reorder or hide, in names and documents of others", (
        "cli/test_documents_of_others.py::test_no_control_character_of_a_document_reaches_a_terminal",
        "safety/test_names_of_any_kind.py::test_they_are_cut_in_the_job_and_nothing_in_them_acts",
    )),
    65: Row("names of a megabyte, 5 000 recorded names", (
        "safety/test_names_of_any_kind.py::test_they_are_cut_in_the_job_and_nothing_in_them_acts",
    )),
    66: Row("documents, records and traces that are deep, huge or of wrong types, given to a command", (
        "cli/test_documents_of_others.py::test_any_value_at_any_place_is_shown_right_or_refused_in_a_line",
        "cli/test_documents_of_others.py::test_a_file_that_is_no_document_is_one_line_and_spoils_no_directory",
        "cli/test_documents_of_others.py::test_what_is_no_file_or_too_large_is_one_line",
    )),
    67: Row("secrets in malformed headers, endpoints and proxies", (
        "otel/test_environment.py::test_no_secret_is_in_what_is_said",
        "cli/test_check.py::test_a_secret_is_masked_wherever_it_stands",
    )),
    68: Row("a watched function, or what holds one, is pickled and loaded without jaxobs", (
        "probe/test_watched_is_the_function.py::test_a_pickle_is_one_of_the_function_and_loads_where_there_is_no_jaxobs",
    )),
    69: Row("trees of the user's types count their flattenings; live arrays after the results were dropped", (
        "probe/test_watched_is_the_function.py::test_pytrees_of_the_user_are_flattened_as_often_as_without",
        "probe/test_completions.py::test_of_results_that_the_job_drops_few_small_ones_are_alive_and_only_until_they_are_done",
    )),
    70: Row("the interpreter ends with steps in flight and arrays recorded, watched, polled or sampled"),
    71: Row("the job joins every thread that it finds; threading.setprofile, settrace, excepthook"),
    72: Row("sigwait and sigtimedwait; masks set after instrument() and before JAX"),
    73: Row("Ctrl-C in the launch window, in shutdown() and at the end of the interpreter"),
    74: Row("the job is a child subreaper and waits for all children; a SIGCHLD handler that knows its children"),
    75: Row("SIGPIPE has its default action when the agent dies", (
        "flow/test_descriptor.py::test_sending_to_an_end_that_is_gone_raises_no_signal",
        "safety/test_the_agent_is_lost.py::test_an_agent_that_is_killed_is_started_again_so_often_and_then_given_up",
    )),
    76: Row("socket.socket, socketpair, open, an audit hook raise any Exception for us", (
        "safety/test_what_cannot_be_had.py::test_where_an_audit_hook_forbids_something_the_job_goes_on",
        "safety/test_what_cannot_be_had.py::test_where_sockets_or_files_are_forbidden_the_job_goes_on",
    )),
    77: Row("descriptors closed under us and used again by the job", (
        "flow/test_descriptor.py::test_a_number_that_means_something_else_is_not_touched",
        "safety/test_the_agent_is_lost.py::test_descriptors_that_the_job_closes_and_uses_again_are_its_own",
    )),
}  # fmt: skip


def targets() -> list[str]:
    """What pytest is to be given: this room, and what its rows point to."""
    pointed = {test for row in ROWS.values() for test in row.elsewhere}
    return ["tests/faults", *(f"tests/{test}" for test in sorted(pointed))]


if __name__ == "__main__":
    print(*targets())
