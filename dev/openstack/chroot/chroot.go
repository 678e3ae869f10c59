// Package chroot runs programs of another Debian: its root directory is theirs, read-only, and they have processes, mounts, a network and a
// host name of their own. They are started by this process, one by one, and the kernel ends all of them with it, however it ends:
// everything that they mounted, and every process that they started, is gone then.
//
//	room, err := chroot.Open(chroot.Options{Root: root, State: state, Host: "localhost"})
//	server, err := room.Start(chroot.Command{Name: "server", Path: "/usr/sbin/server"})
//	connection, err := room.Dial(ctx, "tcp", "127.0.0.1:80")
//	err = room.Close()
//
// It needs Linux and root.
package chroot

import (
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// StateDir is where programs find Options.State. It is short because paths of sockets may have no more than 107 bytes.
const StateDir = "/srv/cloud"

// openTimeout bounds how long the first process of a room may take.
const openTimeout = time.Minute

// Options say what a room is. All are required.
type Options struct {
	// Root is the root directory. Several rooms may share it, because no program writes to it.
	Root string
	// State is a directory of this machine, which programs find at StateDir. It has the logs, too, in Logs.
	State string
	// Logs is a directory of this machine, for what each program writes.
	Logs string
	// Host is the host name that programs see.
	Host string
}

// Command says what to run in a room.
type Command struct {
	// Name is what errors and the log call the program.
	Name string
	// Path is the absolute path of the program within the root, and Args are its arguments.
	Path string
	Args []string
	// Env are environment variables as "NAME=value". Those of this process are not passed on.
	Env []string
}

// environment is what every program gets.
var environment = []string{
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "HOME=" + StateDir, "TMPDIR=/tmp",
}

func (o Options) validate() error {
	var wrong field.ErrorList
	for name, value := range map[string]string{"Root": o.Root, "State": o.State, "Logs": o.Logs} {
		if !filepath.IsAbs(value) {
			wrong = append(wrong, field.Invalid(field.NewPath(name), value, "not an absolute path"))
		}
	}
	if o.Host == "" {
		wrong = append(wrong, field.Required(field.NewPath("Host"), "the host name that programs see"))
	}
	if err := wrong.ToAggregate(); err != nil {
		return fmt.Errorf("open a root directory: %w", err)
	}
	return nil
}
