//go:build !linux

package chroot

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"syscall"

	"github.com/mooring-ccm/mooring/dev/program"
)

// errUnsupported is what everything returns.
var errUnsupported = errors.New("open a root directory: namespaces need Linux")

// Room is a root directory with namespaces of its own.
type Room struct{}

// Open returns an error: only Linux has namespaces.
func Open(Options) (*Room, error) { return nil, errUnsupported }

// Start returns an error.
func (r *Room) Start(Command) (*program.Program, error) { return nil, errUnsupported }

// Run returns an error.
func (r *Room) Run(context.Context, Command) (string, error) { return "", errUnsupported }

// Dial returns an error.
func (r *Room) Dial(context.Context, string, string) (net.Conn, error) { return nil, errUnsupported }

// SignalGroup returns an error.
func (r *Room) SignalGroup(*program.Program, syscall.Signal) error { return errUnsupported }

// Close returns an error.
func (r *Room) Close() error { return errUnsupported }

// PrivateMounts returns an error.
func PrivateMounts(*exec.Cmd) error { return errUnsupported }
