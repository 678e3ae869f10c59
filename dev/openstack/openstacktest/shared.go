package openstacktest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/mooring-ccm/mooring/dev/openstack"
)

// Shared is one cloud for all tests of a package, each of which makes a tenant of its own there. The zero value is ready for Main.
type Shared struct {
	once  sync.Once
	cloud *openstack.Cloud
	err   error
}

// Main runs the tests of a package, ends the cloud that they have shared, and returns the exit code. The directory of the cloud is kept when a
// test has failed.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if s.cloud == nil {
		return code
	}
	if code != 0 {
		s.cloud.Keep()
		fmt.Fprintf(os.Stderr, "logs and state of OpenStack are kept in %s\n", s.cloud.Dir())
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.cloud.Close(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// Cloud returns the cloud, which the first call starts, with progress on standard error. The test is skipped, with a line that says what is
// missing, where the services are not installed.
func (s *Shared) Cloud(t testing.TB) *openstack.Cloud {
	t.Helper()
	Require(t)
	s.once.Do(func() {
		s.cloud, s.err = openstack.Start(context.WithoutCancel(t.Context()), openstack.Options{Progress: os.Stderr})
	})
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cloud
}
