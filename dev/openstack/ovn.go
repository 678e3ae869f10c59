package openstack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mooring-ccm/mooring/dev/openstack/chroot"
)

// OVNDatabase is one of OVN's two.
type OVNDatabase string

const (
	// Northbound is what neutron and octavia want: networks, routers, load balancers.
	Northbound OVNDatabase = "nb"
	// Southbound is what a compute host would read: where ports are, what the health monitors found.
	Southbound OVNDatabase = "sb"
)

func (d OVNDatabase) file(suffix string) string {
	return chroot.StateDir + "/ovn/" + string(d) + suffix
}

// startOVN starts OVN's databases and what translates the one into the other. There is no Open vSwitch and no ovn-controller: the chassis
// that neutron binds ports to are rows.
func (c *Cloud) startOVN(ctx context.Context, fresh bool) error {
	for _, database := range []OVNDatabase{Northbound, Southbound} {
		if fresh {
			if _, err := c.room.Run(ctx, chroot.Command{Name: "ovsdb-tool", Path: "/usr/bin/ovsdb-tool", Args: []string{
				"create", database.file(".db"), "/usr/share/ovn/ovn-" + string(database) + ".ovsschema",
			}}); err != nil {
				return err
			}
		}
		if err := c.launch(chroot.Command{Name: "ovn-" + string(database), Path: "/usr/sbin/ovsdb-server", Args: []string{
			"--remote=punix:" + database.file(".sock"), "--unixctl=" + database.file(".ctl"), "--no-chdir",
			"--log-file=/dev/null", database.file(".db"),
		}}); err != nil {
			return err
		}
		err := c.await(ctx, "OVN's database answers", func(ctx context.Context) error {
			_, err := c.OVN(ctx, database, "init")
			return err
		})
		if err != nil {
			return err
		}
	}
	err := c.launch(chroot.Command{Name: "ovn-northd", Path: "/usr/bin/ovn-northd", Args: []string{
		"--ovnnb-db=unix:" + Northbound.file(".sock"), "--ovnsb-db=unix:" + Southbound.file(".sock"),
		"--unixctl=" + chroot.StateDir + "/ovn/northd.ctl",
	}})
	if err != nil {
		return err
	}
	for i, zone := range zones {
		if err := c.addChassis(ctx, zone, i, fresh); err != nil {
			return fmt.Errorf("add the chassis %s: %w", zone, err)
		}
	}
	return nil
}

// addChassis has OVN know a compute host, and believe that it was seen alive right now.
func (c *Cloud) addChassis(ctx context.Context, host string, number int, fresh bool) error {
	now := fmt.Sprintf("nb_cfg_timestamp=%d", time.Now().UnixMilli())
	if !fresh {
		_, err := c.OVN(ctx, Southbound, "set", "Chassis_Private", host, now)
		return err
	}
	if _, err := c.OVN(ctx, Southbound, "chassis-add", host, "geneve", fmt.Sprintf("127.0.0.%d", 11+number)); err != nil {
		return err
	}
	id, err := c.OVN(ctx, Southbound, "--bare", "--columns=_uuid", "find", "Chassis", "name="+host)
	if err != nil {
		return err
	}
	args := []string{"set", "Chassis", host, "hostname=" + host}
	for _, column := range []string{"other_config", "external_ids"} {
		args = append(args, column+":ovn-bridge-mappings=external:br-ex", column+":ovn-cms-options=enable-chassis-as-gw")
	}
	args = append(args, "--", "--id=@private", "create", "Chassis_Private", "name="+host, "chassis="+id, now)
	_, err = c.OVN(ctx, Southbound, args...)
	return err
}

// OVN runs ovn-nbctl or ovn-sbctl with arguments, for example Northbound with "lb-list", and returns what it says.
func (c *Cloud) OVN(ctx context.Context, database OVNDatabase, args ...string) (string, error) {
	name := "ovn-" + string(database) + "ctl"
	out, err := c.room.Run(ctx, chroot.Command{
		Name: name, Path: "/usr/bin/" + name, Args: append([]string{"--db=unix:" + database.file(".sock"), "--timeout=20"}, args...),
	})
	return strings.TrimSpace(out), err
}
