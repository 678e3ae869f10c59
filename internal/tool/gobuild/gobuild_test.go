package gobuild

import (
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	failed := &exec.ExitError{}
	tests := map[string]struct {
		err     error
		message string
		network bool
		disk    bool
	}{
		"no name server": {failed, "dial tcp: lookup proxy.example: no such host", true, false},
		"proxy off":      {failed, "module lookup disabled by GOPROXY=off", true, false},
		"full disk":      {failed, "write $WORK/b001/_pkg_.a: no space left on device", false, true},
		"wrong source":   {failed, "./main.go:3:15: undefined: x", false, false},
		"cannot be run":  {fs.ErrPermission, "", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := explain("build", test.err, []string{"# package", test.message})
			var network *NetworkError
			var disk *DiskError
			if errors.As(err, &network) != test.network || errors.As(err, &disk) != test.disk {
				t.Errorf("error is a %T", err)
			}
			if !errors.Is(err, test.err) || !strings.Contains(err.Error(), test.message) {
				t.Errorf("error %q hides %v or %q", err, test.err, test.message)
			}
		})
	}
}

// TestShipped: a user's tag is kept, because a tag of the command line would replace the tags of GOFLAGS.
func TestShipped(t *testing.T) {
	for _, test := range []struct{ goflags, linker, want string }{
		{"", "", "-tags=grpcnotrace -ldflags=-s -w"},
		{"-mod=mod -tags=a,b --tags=c", "-X d=e", "-tags=grpcnotrace,a,b,c -ldflags=-s -w -X d=e"},
	} {
		if flags := strings.Join(Shipped(test.goflags, test.linker), " "); flags != test.want {
			t.Errorf("GOFLAGS=%q: %s, want %s", test.goflags, flags, test.want)
		}
	}
}
