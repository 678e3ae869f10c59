package openstack

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/mooring-ccm/mooring/dev/openstack/chroot"
)

const (
	databaseSocket = chroot.StateDir + "/run/mysql.sock"
	databaseDir    = chroot.StateDir + "/mysql"
)

var databases = []string{"keystone", "placement", "glance", "nova_api", "nova_cell1", "nova_cell0", "neutron", "octavia"}

// startDatabase starts MariaDB, which answers on a socket only. Nothing of it survives a power cut, and it is faster for that.
func (c *Cloud) startDatabase(ctx context.Context, fresh bool) error {
	if fresh {
		if _, err := c.room.Run(ctx, chroot.Command{Name: "mariadb-install-db", Path: "/usr/bin/mariadb-install-db", Args: []string{
			"--no-defaults", "--datadir=" + databaseDir, "--auth-root-authentication-method=normal", "--skip-test-db",
			"--innodb-log-file-size=16M", "--user=root",
		}}); err != nil {
			return err
		}
	}
	err := c.launch(chroot.Command{Name: "mariadb", Path: "/usr/sbin/mariadbd", Args: []string{
		"--no-defaults", "--user=root", "--datadir=" + databaseDir, "--socket=" + databaseSocket,
		"--pid-file=" + chroot.StateDir + "/run/mysqld.pid", "--skip-networking", "--skip-grant-tables",
		"--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--innodb-buffer-pool-size=128M", "--innodb-log-file-size=16M",
		"--innodb-doublewrite=0", "--max-connections=600", "--character-set-server=utf8mb3", "--performance-schema=off",
	}})
	if err != nil {
		return err
	}
	err = c.await(ctx, "the database answers", func(ctx context.Context) error {
		_, err := c.sql(ctx, "select 1")
		return err
	})
	if err != nil || !fresh {
		return err
	}
	return c.migrate(ctx)
}

// sql runs statements and returns the rows, a line each with tabs between values.
func (c *Cloud) sql(ctx context.Context, statements ...string) (string, error) {
	out, err := c.room.Run(ctx, chroot.Command{Name: "mariadb", Path: "/usr/bin/mariadb", Args: []string{
		"--no-defaults", "--socket=" + databaseSocket, "--user=root", "--skip-column-names", "--execute=" + strings.Join(statements, ";"),
	}})
	return strings.TrimSpace(out), err
}

// manage returns how the administrative command of a service runs, with a configuration file. Its start script is in none of the packages
// that are installed.
func manage(module, conf string, args ...string) chroot.Command {
	name := strings.Split(module, ".")[0]
	code := "import sys; sys.argv[0] = '" + name + "-manage'; from " + module + " import main; sys.exit(main())"
	return chroot.Command{Name: name + "-manage", Path: "/usr/bin/python3", Args: append([]string{"-c", code, "--config-file", confPath(conf)}, args...), Env: python}
}

// migrate makes the databases and their tables.
func (c *Cloud) migrate(ctx context.Context) error {
	create := make([]string, 0, len(databases))
	for _, name := range databases {
		create = append(create, "create database "+name+" character set utf8mb3")
	}
	if _, err := c.sql(ctx, create...); err != nil {
		return err
	}
	nova := func(args ...string) chroot.Command {
		return manage("nova.cmd.manage", "nova.conf", args...)
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, steps := range [][]chroot.Command{
		{manage("keystone.cmd.manage", "keystone.conf", "db_sync")},
		{manage("placement.cmd.manage", "placement.conf", "db", "sync")},
		{manage("glance.cmd.manage", "glance-api.conf", "db_sync")},
		{manage("neutron.db.migration.cli", "neutron.conf", "upgrade", "heads")},
		{manage("octavia.db.migration.cli", "octavia.conf", "upgrade", "head")},
		{
			nova("api_db", "sync"),
			nova("cell_v2", "map_cell0", "--database_connection", databaseURL("nova_cell0")),
			nova("cell_v2", "create_cell", "--name=cell1"),
			nova("db", "sync"),
		},
	} {
		group.Go(func() error {
			for _, step := range steps {
				if _, err := c.room.Run(ctx, step); err != nil {
					return fmt.Errorf("make tables: %w", err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// publish has keystone's catalog give tenants the addresses of this cloud's proxies.
func (c *Cloud) publish(ctx context.Context) error {
	statements := make([]string, 0, len(apis))
	for service := range apis {
		statements = append(statements, fmt.Sprintf("update keystone.endpoint e join keystone.service s on s.id = e.service_id "+
			"set e.url = '%s' where e.interface = 'public' and s.type = '%s'", c.faults.URL(string(service)), service))
	}
	_, err := c.sql(ctx, statements...)
	return err
}
