"""Runs what Debian has no start script for, or one that does not fit: serve.py NAME HOST:PORT CONFIG.

keystone, placement and octavia are WSGI applications, which waitress serves; agent and worker are octavia's driver agent and its controller
worker, which need a change before they start.
"""

import os
import sys

name, address, conf = sys.argv[1:4]
state = os.path.dirname(os.path.dirname(conf))


def log_from_native_threads():
    """Keeps oslo.log 5.0 from giving logging the locks of eventlet, which it does where anything has imported that. Nothing here runs on
    eventlet, and a native thread that waits for such a lock, as octavia's worker does with many messages at once, waits forever."""
    from oslo_log import log

    log._fix_eventlet_logging = lambda: None


def use_sockets_of_this_cloud():
    """Changes the defaults of octavia_lib, which ignores what octavia.conf says of its sockets."""
    from octavia_lib.api.drivers.driver_lib import DriverLibrary

    DriverLibrary.__init__.__defaults__ = tuple(
        "%s/octavia/%s.sock" % (state, kind) for kind in ("status", "stats", "get"))


def keystone():
    os.environ["OS_KEYSTONE_CONFIG_FILES"] = conf
    sys.argv[1:] = []
    from keystone.server.wsgi import initialize_public_application

    return initialize_public_application()


def placement():
    os.environ["OS_PLACEMENT_CONFIG_DIR"] = os.path.dirname(conf)
    sys.argv[1:] = []
    from placement.wsgi import init_application

    return init_application()


def octavia():
    use_sockets_of_this_cloud()
    from octavia.api.app import setup_app

    return setup_app(argv=["octavia-wsgi", "--config-file", conf])


def agent():
    use_sockets_of_this_cloud()
    sys.argv[1:] = ["--config-file", conf]
    from octavia.cmd.driver_agent import main

    return main()


def worker():
    """Gives the provider amphora real ports and a real security group, with no instance behind them."""
    from octavia.common import config  # noqa: F401 registers the options that the tasks read while they are imported
    from octavia.controller.worker.v2.tasks.network_tasks import CalculateAmphoraDelta
    from octavia.network import data_models
    from octavia.network.drivers.neutron.allowed_address_pairs import AllowedAddressPairsDriver as Driver

    # compute_noop_driver answers a request to attach a port with nothing, which the worker takes for a failure.
    Driver.plug_port = lambda self, amphora, port: data_models.Interface(
        compute_id=amphora.compute_id, network_id=port.network_id, port_id=port.id, fixed_ips=port.fixed_ips)
    Driver.plug_network = lambda self, compute_id, network_id: data_models.Interface(
        compute_id=compute_id, network_id=network_id, fixed_ips=[])
    Driver.unplug_network = lambda self, compute_id, network_id: None
    Driver.unplug_vip = lambda self, load_balancer, vip: None
    # An amphora without an instance has no interfaces to compare; members would end in ERROR.
    CalculateAmphoraDelta.execute = lambda self, loadbalancer, amphora, *args, **kwargs: data_models.Delta(
        amphora_id=amphora["id"], compute_id=amphora["compute_id"], add_nics=[], delete_nics=[],
        add_subnets=[], delete_subnets=[]).to_dict(recurse=True)
    sys.argv[:] = ["octavia-worker", "--config-file", conf]
    from octavia.cmd.octavia_worker import main

    return main()


log_from_native_threads()
if name in ("agent", "worker"):
    sys.exit({"agent": agent, "worker": worker}[name]())

import waitress  # noqa: E402

application = {"keystone": keystone, "placement": placement, "octavia": octavia}[name]()
waitress.serve(application, listen=address, threads=8, channel_timeout=300, clear_untrusted_proxy_headers=True, ident=name)
