package isolation_test

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/mooring-ccm/mooring/dev/faults/pluginfault"
	"github.com/mooring-ccm/mooring/dev/integration/faulty"
)

// TestListsPanic has the provider panic in lists and watches, at their beginning and in their midst. Neither ends the process,
// and what needs no list goes on.
func TestListsPanic(t *testing.T) {
	t.Parallel()
	m := start(t, "list", faulty.Options{Lists: true, Watches: true})
	m.populate(t)
	broken := m.instance(t, "broken")
	m.awaitInitialized(t, broken)
	var waiting []string
	for _, object := range []string{broken, ""} {
		m.cloud.Fault("WatchInstances", object, pluginfault.Panic("panic in a watch"))
		m.cloud.Fault("ListInstances", object, pluginfault.Panic("panic in a list"))
		m.cloud.StartInstance(broken) // so the watch has something to say
		m.awaitFaults(t, 1, "WatchInstances", object)
		waiting = append(waiting, m.instance(t, "waiting-"+strconv.Itoa(len(waiting))))
		m.awaitFaults(t, 1, "ListInstances", object)
	}
	m.awaitProbe(t, "/livez", http.StatusOK)
	awaitAddress(t, m.service(t, "listed"))

	m.cloud.Fault("ListInstances", "", pluginfault.Fault{})
	m.cloud.Fault("ListInstances", broken, pluginfault.Fault{})
	for _, node := range waiting {
		m.awaitInitialized(t, node)
	}
	m.serves(t, "watch-panic")
}
