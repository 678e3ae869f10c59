// Package openstacktest gives a test an OpenStack of its own.
package openstacktest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/dev/openstack"
)

const (
	// RequireVariable, set to 1, makes a test fail that is skipped otherwise because the services are not installed. make test-openstack
	// sets it, after it has installed them.
	RequireVariable = "MOORING_REQUIRE_OPENSTACK"
	// closeTimeout bounds the end of a cloud.
	closeTimeout = time.Minute
)

// Start starts a cloud that is closed when the test and its other clean-ups are through, with progress on standard error. The test is
// skipped, with a line that says what is missing, where the services are not installed. The directory of a failed test is kept, and its
// place logged.
func Start(t testing.TB) *openstack.Cloud {
	t.Helper()
	Require(t)
	// Not the test's context: that one ends before the clean-ups, which may still need the cloud.
	cloud, err := openstack.Start(context.WithoutCancel(t.Context()), openstack.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			cloud.Keep()
			t.Logf("logs and state of OpenStack are kept in %s", cloud.Dir())
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), closeTimeout)
		defer cancel()
		if err := cloud.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return cloud
}

// Require skips the test, with a line that says what is missing, where the services are not installed, or fails it if they have to be.
func Require(t testing.TB) {
	t.Helper()
	var missing *openstack.MissingError
	switch err := openstack.Check(openstack.Options{}); {
	case err == nil:
	case errors.As(err, &missing) && os.Getenv(RequireVariable) != "1":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}
