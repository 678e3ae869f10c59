package adversary

import (
	"flag"
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
	os.Exit(harness.MainOfWhole(m, "adversary", func(started *localcluster.Cluster, administrator *kubernetes.Clientset, _ string) {
		cluster, admin = started, administrator
	}, goleak.IgnoreAnyFunction("github.com/eapache/channels.(*InfiniteChannel).infiniteBuffer"),
		goleak.IgnoreAnyFunction("github.com/osrg/gobgp/v4/pkg/server.(*bfdServer).loop"))) // GoBGP never ends these
}
