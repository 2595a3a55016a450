"""Collector `tpu`: reads the TPU chips of this host from libtpu's monitoring library (`libtpu.sdk.tpumonitoring`).

The library is a client that works from another process than the job's and takes no TPU from it. Google's page "TPU
Monitoring Library" (cloud.google.com/tpu/docs/tpu-monitoring-library) says so, and tpu-info
(AI-Hypercomputer/cloud-accelerator-diagnostics) uses it so; libtpu 0.0.52, watched under strace on a host without a
TPU, opened no device (neither /dev/accel* nor /dev/vfio) and took no lock file. It queries services on this host: for
duty cycle, memory and queues the one that libtpu runs in the job at port 8431 (TPU_RUNTIME_METRICS_PORTS), for the rest
one of the host's at port 8353; where none answers, its lists are empty. Also seen there: before its first answer it
queries the metadata server of Google Cloud, for two minutes where there is none; it writes to standard error; and it
takes 87 MB of memory in the agent, most of them the library itself, which the job maps as well.

This collector has been run with libtpu 0.0.52 on a stand-in for the service at port 8431, and never with a TPU.
"""

from jaxobs_plugins.collectors.tpu.collector import TpuCollector

__all__ = ["TpuCollector"]
