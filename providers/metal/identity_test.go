package metal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/mooring-ccm/mooring/dev/poll"
	"github.com/mooring-ccm/mooring/providers/metal/config"
	"github.com/mooring-ccm/mooring/providers/metal/machines/power"
)

const (
	ownUUID     = "00112233-4455-6677-8899-aabbccddeeff"
	swappedUUID = "33221100-5544-7766-8899-AABBCCDDEEFF"
	otherUUID   = "30112233-4455-6677-8899-aabbccddeeff"
)

// What a node says of the machine that it runs on counts as well: it verifies a controller where the inventory has no UUID, and a node
// that runs elsewhere makes its machine's power unknown. Nothing is faked between the program that is asked and the answer.
func TestNodesVerifyControllers(t *testing.T) {
	const none, placeholder = "", "03000200-0400-0500-0006-000700080009"
	for name, test := range map[string]struct {
		inventory, bmc, node string
		verified, wrong      bool
	}{
		"all agree":                        {ownUUID, ownUUID, swappedUUID, true, false},
		"the node says nothing":            {ownUUID, ownUUID, none, true, false},
		"the node runs elsewhere":          {ownUUID, ownUUID, otherUUID, false, true},
		"only the node runs elsewhere":     {ownUUID, none, otherUUID, false, true},
		"by the node":                      {none, ownUUID, swappedUUID, true, false},
		"not by the node":                  {none, ownUUID, otherUUID, false, true},
		"not by what many boards have":     {none, placeholder, placeholder, false, false},
		"the controller says nothing":      {none, none, ownUUID, false, false},
		"the controller is another one's":  {ownUUID, otherUUID, ownUUID, false, true},
		"both are, and the inventory too":  {ownUUID, otherUUID, otherUUID, false, true},
		"the controller is unknown":        {none, ownUUID, none, false, false},
		"the inventory alone has one":      {ownUUID, none, none, false, false},
		"inventory and node, not the bmc":  {ownUUID, none, ownUUID, false, false},
		"the node has what many boards do": {ownUUID, ownUUID, placeholder, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fields := fmt.Sprintf("n1 id: one, bmc: {command: {argv: [/bin/echo, \"off\", %q]}}", test.bmc)
			if test.inventory != "" {
				fields += ", systemUUID: " + test.inventory
			}
			r := newRack(t, fields)
			poller := power.NewPoller(power.Options{})
			machines := NewInstances(r.source, poller)
			defer machines.Close()
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- poller.Run(ctx, r.source) }()
			defer func() {
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			}()
			node := nodeNamed("n1")
			node.Spec.ProviderID = "metal://one"
			node.Status.NodeInfo.SystemUUID = test.node
			poll.Until(t, "the machine is known to be off, or the controller to be wrong", func(context.Context) error {
				observed := poller.Observe("one")
				return poll.Holds(observed.State == power.Off || isWrongSystem(observed.Err))
			})
			observed := machines.Observe(node)
			want := power.Off
			if test.wrong {
				want = power.Unknown
			}
			if observed.State != want || observed.Verified != test.verified || observed.Trusted != test.verified || isWrongSystem(observed.Err) != test.wrong {
				t.Errorf("%+v; want %s, verified %t", observed, want, test.verified)
			}
			if off, err := machines.InstanceShutdown(ctx, node); off != (want == power.Off) || err != nil {
				t.Errorf("InstanceShutdown: %t, %v", off, err)
			}
		})
	}
}

func isWrongSystem(err error) bool {
	var wrong *power.WrongSystemError
	return errors.As(err, &wrong)
}

// The error of a node that runs elsewhere names the machine, and both UUIDs with who says them.
func TestWrongNodesAreNamed(t *testing.T) {
	node := &v1.Node{}
	node.Status.NodeInfo.SystemUUID = otherUUID
	observed := identified(power.Observation{State: power.Off, Since: time.Now(), Verified: true, Trusted: true},
		&config.Machine{Name: "n1", SystemUUID: ownUUID}, node)
	for _, part := range []string{"machine n1", "the inventory says", ownUUID, "its node that it is " + otherUUID} {
		if observed.Err == nil || !strings.Contains(observed.Err.Error(), part) {
			t.Errorf("%v does not say %s", observed.Err, part)
		}
	}
	if observed.State != power.Unknown || observed.Trusted || observed.Verified {
		t.Errorf("%+v", observed)
	}
}
