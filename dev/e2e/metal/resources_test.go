package metal_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-ccm/mooring/deploy"
	"github.com/mooring-ccm/mooring/dev/e2e/rack"
	"github.com/mooring-ccm/mooring/dev/must"
	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/lb/metallb"
)

// resourcesTakeTurns has resources of MetalLB take the place of the file, and the file theirs, by two rolling updates. Nothing changes for
// routers and clients.
func (s *scene) resourcesTakeTurns(t *testing.T) {
	definitions, err := os.ReadFile("../../integration/cloudconfig/testdata/metallb-crds.yaml")
	must.NoError(t, err)
	for _, manifest := range [][]byte{
		fmt.Appendf(nil, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", metallb.DefaultNamespace), deploy.MetalLBRBAC, definitions,
	} {
		must.NoError(t, s.cluster.Apply(t.Context(), manifest))
	}
	resources := fmt.Appendf(nil, `apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: public, namespace: %[1]s}
spec: {addresses: [%[2]s, "%[3]s"]}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: rtr, namespace: %[1]s}
spec: {myASN: %[4]d, peerASN: %[4]d, peerAddress: %[5]s, connectTime: 2s, dualStackAddressFamily: true}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: all, namespace: %[1]s}
`, metallb.DefaultNamespace, pools[0], pools[1], rack.ASN, rack.Router4.Addr())
	poll.Until(t, "resources of MetalLB are applied", func(ctx context.Context) error { return s.cluster.Apply(ctx, resources) })

	text, err := os.ReadFile(s.config())
	must.NoError(t, err)
	before, rest, _ := strings.Cut(string(text), "pools:\n")
	_, announcement, _ := strings.Cut(rest, "announcement: {")
	announcement, _, _ = strings.Cut(announcement, "\n")
	beside := filepath.Join(s.dir, "beside.yaml")
	must.NoError(t, os.WriteFile(beside, []byte(before+"announcement: {podRoutes: true, "+announcement+"\n"), 0o600))

	fib, monitor, begin := s.router.FIB(t), s.router.Monitor(t), time.Now()
	for _, source := range []string{beside, ""} {
		s.beside = source
		for i := range replicaCount {
			s.replicas[i].Stop()
			s.awaitReady(t, s.startReplica(t, i))
		}
		s.unharmed(t, begin)
		s.requireNoEvent(t, monitor, fib)
	}
}
