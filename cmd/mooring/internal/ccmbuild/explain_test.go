package ccmbuild

import (
	"errors"
	"testing"

	"github.com/mooring-ccm/mooring/internal/tool/gobuild"
)

// What is missing is reported with who imports it, and with the version that was found.
func TestAMissingPackageIsReportedWithWhoImportsIt(t *testing.T) {
	failed := &gobuild.CommandError{Verb: "get", Messages: []string{
		"go: example.com/plugin imports",
		"\tk8s.io/client-go/mock: module k8s.io/client-go@latest found (v0.37.2), but does not contain package k8s.io/client-go/mock",
		"go: example.com/plugin imports",
		"\tk8s.io/client-go/other: module k8s.io/client-go@latest found (v0.37.2), but does not contain package k8s.io/client-go/other",
	}}
	var missing *NoPackageError
	if err := explain(failed, Workspace{}, Picked{}); !errors.As(err, &missing) {
		t.Fatalf("%T: %v", err, err)
	}
	const want = "module k8s.io/client-go v0.37.2 has no package k8s.io/client-go/mock, which example.com/plugin imports; another version may have it, or it lies elsewhere in the module"
	if missing.Error() != want {
		t.Errorf("%s\nwant\n%s", missing, want)
	}
}

// Of one that is imported at second hand, the chain from what was asked for is named.
func TestAMissingPackageIsReportedWithTheChainOfImports(t *testing.T) {
	failed := &gobuild.CommandError{Verb: "get", Messages: []string{
		"go: example.com/plugin imports",
		"\texample.com/plugin/client imports",
		"\tk8s.io/client-go/mock: module k8s.io/client-go@latest found (v0.37.2), but does not contain package k8s.io/client-go/mock",
	}}
	const want = "module k8s.io/client-go v0.37.2 has no package k8s.io/client-go/mock, which example.com/plugin/client imports " +
		"(example.com/plugin -> example.com/plugin/client); another version may have it, or it lies elsewhere in the module"
	if err := explain(failed, Workspace{}, Picked{}); err.Error() != want {
		t.Errorf("%s\nwant\n%s", err, want)
	}
}
