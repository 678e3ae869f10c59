package adversary

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/integration/harness"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

var (
	cluster *localcluster.Cluster
	admin   *kubernetes.Clientset

	seed  = flag.Uint64("seed", 1, "The seed of the moves.")
	moves = flag.Int("moves", 1000, "How many moves there are.")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		*moves = min(*moves, 100)
	}
	logFile, err := os.CreateTemp("", "mooring-adversary-*.log")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := harness.Main(m, "adversary", func(started *localcluster.Cluster, administrator *kubernetes.Clientset) {
		cluster, admin = started, administrator
		err = harness.LogTo(logFile)
	}, append(harness.WholeManagers(), goleak.IgnoreAnyFunction("github.com/eapache/channels.(*InfiniteChannel).infiniteBuffer"),
		goleak.IgnoreAnyFunction("github.com/osrg/gobgp/v4/pkg/server.(*bfdServer).loop"))...) // GoBGP never ends these
	if err != nil || code != 0 {
		fmt.Fprintln(os.Stderr, err, "the log of the manager is kept in", logFile.Name())
		code = max(code, 1)
	} else {
		_ = os.Remove(logFile.Name())
	}
	os.Exit(code)
}
