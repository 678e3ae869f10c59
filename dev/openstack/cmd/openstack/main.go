// Command openstack starts a private OpenStack on this machine, writes how to log in, and stops it when it is interrupted.
//
//	openstack [-install] [-dir DIR]
//
// It installs the services first, which takes minutes the first time. With -install it does no more than that.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mooring-ccm/mooring/dev/openstack"
)

func main() {
	installOnly := flag.Bool("install", false, "install the services and make their databases, and start nothing")
	dir := flag.String("dir", "", "directory for state and logs; empty: a temporary one")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, openstack.Options{Dir: *dir, Progress: os.Stderr}, *installOnly); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, options openstack.Options, installOnly bool) error {
	if err := openstack.Install(ctx, options); err != nil || installOnly {
		return err
	}
	began := time.Now()
	cloud, err := openstack.Start(ctx, options)
	if err != nil {
		return err
	}
	err = writeLogin(cloud, time.Since(began))
	if err == nil {
		<-ctx.Done()
	}
	return errors.Join(err, cloud.Close(context.WithoutCancel(ctx)))
}

// writeLogin writes a clouds.yaml beside the logs, and says where it is.
func writeLogin(cloud *openstack.Cloud, took time.Duration) error {
	path := filepath.Join(cloud.Dir(), "clouds.yaml")
	if err := os.WriteFile(path, []byte(cloud.CloudsYAML()), 0o600); err != nil {
		return err
	}
	fmt.Printf("OpenStack is ready after %.0f s. Stop it with Ctrl-C.\n\n", took.Seconds())
	fmt.Printf("  export OS_CLIENT_CONFIG_FILE=%s OS_CLOUD=k8s   # or admin\n  logs: %s\n\ncloud.conf:\n\n%s", path,
		filepath.Join(cloud.Dir(), "logs"), cloud.CloudConf(cloud.Tenant()))
	return nil
}
