package openstack

import (
	"context"
	"time"

	"github.com/mooring-ccm/mooring/dev/openstack/chroot"
)

// startMessages starts RabbitMQ, and the daemon by which Erlang's programs find each other. It does not wait.
func (c *Cloud) startMessages() error {
	// What else would start a daemon that outlives RabbitMQ, if not the room.
	if err := c.launch(chroot.Command{Name: "epmd", Path: "/usr/bin/epmd", Args: []string{"-address", "127.0.0.1"}}); err != nil {
		return err
	}
	const dir = chroot.StateDir + "/rabbit"
	// Not the wrapper in /usr/sbin, which changes to a user of its own.
	return c.launch(chroot.Command{Name: "rabbitmq", Path: "/usr/lib/rabbitmq/bin/rabbitmq-server", Env: []string{
		"HOME=" + dir, "HOSTNAME=localhost",
		"RABBITMQ_NODENAME=rabbit@localhost",
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_CONFIG_FILE=" + confPath("rabbitmq.conf"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + dir + "/plugins",
		"RABBITMQ_MNESIA_BASE=" + dir + "/mnesia",
		"RABBITMQ_LOG_BASE=" + dir,
		"RABBITMQ_PID_FILE=" + dir + "/pid",
		"RABBITMQ_NODE_IP_ADDRESS=127.0.0.1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}",
	}})
}

// awaitMessages waits until RabbitMQ accepts connections.
func (c *Cloud) awaitMessages(ctx context.Context) error {
	return c.await(ctx, "RabbitMQ accepts connections", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		connection, err := c.room.Dial(ctx, "tcp", "127.0.0.1:5672")
		if err != nil {
			return err
		}
		return connection.Close()
	})
}
