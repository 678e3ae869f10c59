package openstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-ccm/mooring/dev/openstack/chroot"
)

// start starts all services, in the order in which they need each other, and returns when all are ready. A fresh cloud has no databases
// yet; others go on with what a fresh one has made.
func (c *Cloud) start(ctx context.Context, fresh bool) error {
	if err := c.listen(); err != nil {
		return err
	}
	began := time.Now()
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"database, messages and OVN", func(ctx context.Context) error { return c.startFoundations(ctx, fresh) }},
		{"keystone", func(ctx context.Context) error { return c.startIdentity(ctx, fresh) }},
		{"placement, glance, neutron, nova and octavia", func(ctx context.Context) error { return c.startServices(ctx) }},
		{"compute hosts", func(ctx context.Context) error { return c.awaitComputes(ctx, began) }},
	} {
		if err := c.show(ctx, "starting "+step.what, step.do); err != nil {
			return err
		}
	}
	if fresh {
		return c.show(ctx, "making zones, flavors and the external network", c.furnish)
	}
	return nil
}

// show shows a step while it is done.
func (c *Cloud) show(ctx context.Context, what string, do func(context.Context) error) error {
	step := c.display.Begin(what)
	if err := do(ctx); err != nil {
		step.Fail()
		return err
	}
	step.Done("done")
	return nil
}

// startFoundations starts what the services need.
func (c *Cloud) startFoundations(ctx context.Context, fresh bool) error {
	if err := c.startMessages(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startDatabase(ctx, fresh) })
	group.Go(func() error { return c.startOVN(ctx, fresh) })
	return group.Wait()
}

// startIdentity starts keystone, with the addresses of this cloud in its catalog.
func (c *Cloud) startIdentity(ctx context.Context, fresh bool) error {
	if fresh {
		if err := c.bootstrap(ctx); err != nil {
			return err
		}
	}
	if err := c.launchAll(Keystone); err != nil {
		return err
	}
	if err := c.awaitAPI(ctx, Identity); err != nil {
		return err
	}
	if fresh {
		if err := c.register(ctx); err != nil {
			return err
		}
	}
	return c.publish(ctx)
}

// bootstrap makes keystone's keys and first records, and the authority that octavia signs the certificates of amphorae by.
func (c *Cloud) bootstrap(ctx context.Context) error {
	address := apis[Identity].url().String()
	keystone := func(args ...string) chroot.Command { return manage("keystone.cmd.manage", "keystone.conf", args...) }
	certs := chroot.StateDir + "/certs/"
	for _, command := range []chroot.Command{
		keystone("fernet_setup", "--keystone-user", "root", "--keystone-group", "root"),
		keystone("bootstrap", "--bootstrap-password="+adminPassword, "--bootstrap-username="+adminUser, "--bootstrap-project-name="+adminProject,
			"--bootstrap-role-name=admin", "--bootstrap-service-name="+apis[Identity].name, "--bootstrap-region-id="+region,
			"--bootstrap-admin-url="+address, "--bootstrap-public-url="+address, "--bootstrap-internal-url="+address),
		{Name: "openssl", Path: "/usr/bin/openssl", Args: []string{
			"req", "-x509", "-newkey", "rsa:2048", "-passout", "pass:octavia", "-keyout", certs + "ca.key", "-out", certs + "ca.pem",
			"-subj", "/CN=octavia", "-days", "3650",
		}},
	} {
		if _, err := c.room.Run(ctx, command); err != nil {
			return err
		}
	}
	dir := filepath.Join(c.dir, stateName, "certs")
	certificate, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	key, err2 := os.ReadFile(filepath.Join(dir, "ca.key"))
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "client.pem"), append(certificate, key...), 0o600)
}

// startServices starts the rest, and waits until each API answers.
func (c *Cloud) startServices(ctx context.Context) error {
	if err := c.awaitMessages(ctx); err != nil {
		return err
	}
	if err := c.launchAll(PlacementAPI, Neutron, NovaConductor, NovaScheduler, NovaAPI, Glance); err != nil {
		return err
	}
	if err := c.awaitAPI(ctx, Placement); err != nil { // the compute hosts report to it, and give up soon
		return err
	}
	for _, zone := range zones {
		if err := c.launchAll(NovaCompute(zone)); err != nil {
			return err
		}
	}
	if err := c.launchAll(OctaviaAgent, OctaviaAPI, OctaviaWorker); err != nil {
		return err
	}
	for _, service := range []Service{Image, Network, Compute, LoadBalancer} {
		if err := c.awaitAPI(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

// awaitComputes waits until each compute host has reported since a time, and has said what it offers: servers are created from then on.
func (c *Cloud) awaitComputes(ctx context.Context, since time.Time) error {
	return c.await(ctx, "the compute hosts report", func(ctx context.Context) error {
		reported, err := c.sql(ctx, fmt.Sprintf("select count(*) from nova_cell1.services s join nova_cell1.compute_nodes n on n.host = s.host "+
			"where s.`binary` = 'nova-compute' and s.last_seen_up > utc_timestamp() - interval %d second", int(time.Since(since).Seconds())))
		if err != nil {
			return err
		}
		if reported != fmt.Sprint(len(zones)) {
			return fmt.Errorf("%s of %d do", reported, len(zones))
		}
		return nil
	})
}
