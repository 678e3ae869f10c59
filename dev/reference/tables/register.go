package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Extra is a row of the register of extras and the differences that it explains.
type Extra struct {
	// Row is how the row begins in one of the register's pages.
	Row string
	// Differences match what the row explains. Cases match the cases in which it may, all if there is no expression.
	Differences, Cases *regexp.Regexp
	// Bare says that it explains nothing of nodes that a cloud has initialized.
	Bare bool
}

// Register are the pages of the register, from the root of the checkout.
var Register = []string{"docs/explanation/beyond-the-reference.md", "docs/explanation/beyond-the-reference-services.md"}

// bare is an extra of nodes that no cloud has initialized.
func bare(row, differences, cases string) Extra {
	one := extra(row, differences, cases)
	one.Bare = true
	return one
}

func extra(row, differences, cases string) Extra {
	return Extra{Row: row, Differences: regexp.MustCompile("^(" + differences + ")$"), Cases: regexp.MustCompile(cases)}
}

// withoutID are cases whose nodes no cloud has initialized.
const withoutID = `^(node\.Test_syncNode/(04|14) |node\.TestGetInstanceMetadata/02 |nodelifecycle\.Test_Nodes(Deleted|Shutdown)/|nodelifecycle\.Test_GetProviderID/|route\.)`

// Extras are the rows that the cases show.
var Extras = []Extra{
	bare("a node with neither ID nor taint is left alone", `Node \S+: (address \d is "" instead of .*|still there|taint \S+ NoSchedule is "" instead of .*|condition NetworkUnavailable is .*)|`+
		`no event Node \S+: Normal DeletingNode|event Node \S+: Warning NeverInitialized|cloud: routes are .*|calls about \S+ \S+: (\[\] instead of .*|\[1 x CreateRoute .*\] instead of \[1 x CreateRoute .*, 1 x DeleteRoute .*\])`, withoutID),
	bare("no deletion while no instance is affirmed", `Node node0: still there|no event Node node0: Normal DeletingNode|calls: InstanceExists\S* \S+ 1\d times instead of 1`, `^nodelifecycle\.`),
	bare("condition `CloudInstanceGone`, event `NodeDeletionHeld`", `event Node node0: Warning NodeDeletionHeld`, `^nodelifecycle\.`),
	extra("a second denial", `calls: InstanceExists\S* \S+ 2 times instead of 1`, `^nodelifecycle\.`),
	extra("the cloud affirms others first", `calls: InstanceExists\S* (fake://)?beside 1 times instead of 0`, `^nodelifecycle\.`),
	extra("event `CloudError` of a silent node", `event Node node0: Warning CloudError`, `^nodelifecycle\.`),
	extra("Warning events (after 2 s)", `event Node node0: Warning (CloudError|NodeIPMismatch|ProviderIDMissing)`, `^node\.`),
	extra("annotation `mooring.dev/proven`", `Node node0: annotation mooring\.dev/proven is .* instead of ""`, `^node\.`),
	extra("older plugins are asked for type and zone too", `calls: (GetZoneByProviderID|InstanceTypeByProviderID) \S+ 1 times instead of 0|`+
		`calls: (GetZoneByNodeName|InstanceID|InstanceType|NodeAddresses|NodeAddressesByProviderID) \S+ [23] times instead of [01]`, `^node\.`),
	extra("condition `LoadBalancerReady`", `Service \S+: condition LoadBalancerReady is "(True Provided|False (CloudError|NoAddress|NoTargets|Pending))" instead of ""`, `^service\.`),
	extra("targets follow addresses, IDs and the end of an autoscaler's taint", `calls about default/service: \[1 x EnsureLoadBalancer hosts \[\], 1 x UpdateLoadBalancer hosts \[\S+\]\] instead of \[1 x EnsureLoadBalancer hosts \[\]\]|`+
		`event Service service: Normal UpdatedLoadBalancer`, `tainted T->F`),
	extra("targets follow while Ensure fails", `calls about default/\S+: .*|calls: GetLoadBalancer default/\S+ \d times instead of 1`, `/03 1 new node gets added - with retries`),
	extra("deletes without looking first", `calls about default/\S+: \[(1 x EnsureLoadBalancer hosts \[\], )?\d x EnsureLoadBalancerDeleted\] instead of \[.*\]|event Service \S+: Normal DeletingLoadBalancer`, `^service\.`),
	extra("attempts again, and after a restart, are not announced", `no event Service \S+: (Normal EnsuringLoadBalancer|Warning UnAvailableLoadBalancer|Warning SyncLoadBalancerFailed)`, `K8sError|with retries|TestPatchStatus/0[14] |TestServiceQueueDelay/03 `),
	extra("events about waits, differences and a `RetryError`", `event Service \S+: Normal PendingLoadBalancer`, `TestServiceQueueDelay/03 `),
	extra("each change and failed list has its own pause", `fewer calls about \S+ \S+: .*CreateRoute.* instead of .*`, `^route\.`),
}

// raced is what differs only if the reference loses a race with itself: it now and then removes the finalizer of a Service that is gone, and tells that.
var raced = regexp.MustCompile(`^service\.(TestNeedsUpdate/05|TestProcessServiceDeletion/\d+) .*: no event Service external-balancer: Warning SyncLoadBalancerFailed$`)

// Explain returns the rows that explain the differences of a case, as it is or with initialized nodes, each once, and the others.
func (c Case) Explain(differences []string, initialized bool) (rows, unexplained []string) {
	for _, difference := range differences {
		if raced.MatchString(c.ID() + ": " + difference) {
			continue
		}
		i := slices.IndexFunc(Extras, func(one Extra) bool {
			return (!one.Bare || !initialized) && one.Differences.MatchString(difference) && one.Cases.MatchString(c.ID())
		})
		switch {
		case i < 0:
			unexplained = append(unexplained, difference)
		case !slices.Contains(rows, Extras[i].Row):
			rows = append(rows, Extras[i].Row)
		}
	}
	return rows, unexplained
}

// Missing returns the rows of Extras that the register does not have.
func Missing(root string) ([]string, error) {
	var register strings.Builder
	for _, page := range Register {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return nil, fmt.Errorf("read the register of extras: %w", err)
		}
		register.Write(text)
	}
	var missing []string
	for _, one := range Extras {
		if !strings.Contains(register.String(), "\n| "+one.Row) {
			missing = append(missing, one.Row)
		}
	}
	return missing, nil
}
