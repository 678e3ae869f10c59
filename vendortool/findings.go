package vendortool

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mooring-ccm/mooring/internal/orphans"
	"github.com/mooring-ccm/mooring/internal/tool/cli"
)

// findings are what was found in a cloud that belongs to no object of a cluster.
type findings struct {
	// Cluster is the cluster's name, and ClusterUID what distinguishes it from others of that name.
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"clusterUID"`
	// LoadBalancers and Routes are empty lists if there are none.
	LoadBalancers []orphanBalancer `json:"loadBalancers"`
	Routes        []orphanRoute    `json:"routes"`
	// NotLooked says for what the cloud could not be searched, and why.
	NotLooked []string `json:"notLooked,omitempty"`
}

// orphansDocument is what was found as it is printed for programs.
type orphansDocument struct {
	metav1.TypeMeta `json:",inline"`
	Cluster         string           `json:"cluster"`
	ClusterUID      string           `json:"clusterUID"`
	LoadBalancers   []orphanBalancer `json:"loadBalancers"`
	Routes          []orphanRoute    `json:"routes"`
	NotLooked       []string         `json:"notLooked,omitempty"`
}

func (f findings) document() *orphansDocument {
	return &orphansDocument{cli.TypeMeta("Orphans"), f.Cluster, f.ClusterUID, f.LoadBalancers, f.Routes, f.NotLooked}
}

// Rows are the load balancers and routes.
func (d *orphansDocument) Rows() []cli.RowsOf {
	return []cli.RowsOf{{Field: "loadBalancers", Kind: "LoadBalancer"}, {Field: "routes", Kind: "Route"}}
}

// DeepCopyObject returns a copy for printers, which change nothing.
func (d *orphansDocument) DeepCopyObject() runtime.Object { shallow := *d; return &shallow }

// orphanBalancer is a load balancer of no Service.
type orphanBalancer struct {
	Name       string   `json:"name"`
	Service    string   `json:"service"`
	ServiceUID string   `json:"serviceUID"`
	Addresses  []string `json:"addresses,omitempty"`
	// Proven says that it is this cluster's beyond doubt.
	Proven bool `json:"proven"`

	found orphans.Balancer
}

// orphanRoute is a route to no node.
type orphanRoute struct {
	Name        string `json:"name,omitempty"`
	Destination string `json:"destination"`
	Target      string `json:"target,omitempty"`
	Blackhole   bool   `json:"blackhole,omitempty"`
	// Proven says that it is this cluster's, as far as that can be known of a route.
	Proven bool `json:"proven"`

	found orphans.Route
}

func balancersFound(found []orphans.Balancer) []orphanBalancer {
	rows := []orphanBalancer{}
	for _, one := range found {
		row := orphanBalancer{
			Name: one.Name, Service: one.Service.String(), ServiceUID: string(one.ServiceUID), Proven: one.Proven, found: one,
		}
		for _, ingress := range one.Status.Ingress {
			row.Addresses = append(row.Addresses, ingress.IP+ingress.Hostname)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b orphanBalancer) int { return strings.Compare(a.Service+a.Name, b.Service+b.Name) })
	return rows
}

func routesFound(found []orphans.Route) []orphanRoute {
	rows := []orphanRoute{}
	for _, one := range found {
		rows = append(rows, orphanRoute{
			Name: one.Name, Destination: one.DestinationCIDR, Target: string(one.TargetNode), Blackhole: one.Blackhole,
			Proven: one.Proven, found: one,
		})
	}
	slices.SortFunc(rows, func(a, b orphanRoute) int { return strings.Compare(a.Destination+a.Name, b.Destination+b.Name) })
	return rows
}

// stillProven reports whether two looks have found the same thing, and both that it may be removed.
func (b orphanBalancer) stillProven(other orphanBalancer) bool {
	return b.Proven && other.Proven && b.Name == other.Name && b.Service == other.Service && b.ServiceUID == other.ServiceUID
}

func (r orphanRoute) stillProven(other orphanRoute) bool {
	return r.Proven && other.Proven && r.Name == other.Name && r.Destination == other.Destination && r.Target == other.Target
}

// provenBalancers and provenRoutes are how many may be removed.
func (f findings) provenBalancers() (count int) {
	for _, one := range f.LoadBalancers {
		if one.Proven {
			count++
		}
	}
	return count
}

func (f findings) provenRoutes() (count int) {
	for _, one := range f.Routes {
		if one.Proven {
			count++
		}
	}
	return count
}

func (f findings) proven() int { return f.provenBalancers() + f.provenRoutes() }

// removable says in words what may be removed.
func (f findings) removable() string {
	balancers, routes := many(f.provenBalancers(), "load balancer"), many(f.provenRoutes(), "route")
	return fmt.Sprintf("%s and %s of cluster %q", balancers, routes, f.Cluster)
}

// many is a number of things in words.
func many(count int, thing string) string {
	if count == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", count, thing)
}

// text shows the findings to people. What comes from the cloud is quoted.
func (f findings) text() string {
	var out strings.Builder
	if len(f.LoadBalancers)+len(f.Routes) > 0 {
		table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "WHAT\tNAME\tMADE FOR\tADDRESS\tOWNER")
		for _, one := range f.LoadBalancers {
			_, _ = fmt.Fprintf(table, "load balancer\t%q\tService %q, UID %q\t%q\t%s\n",
				one.Name, one.Service, one.ServiceUID, strings.Join(one.Addresses, ", "), owner(one.Proven))
		}
		for _, one := range f.Routes {
			target := fmt.Sprintf("node %q", one.Target)
			if one.Blackhole {
				target = "nothing: it drops packets"
			}
			_, _ = fmt.Fprintf(table, "route\t%q\t%s\t%q\t%s\n", one.Name, target, one.Destination, owner(one.Proven))
		}
		_ = table.Flush() // a strings.Builder takes everything
		out.WriteByte('\n')
	}
	for _, one := range f.NotLooked {
		_, _ = fmt.Fprintf(&out, "Not looked for %s\n", one)
	}
	_, _ = fmt.Fprintf(&out, "%s of no Service and %s to no node; this cluster's beyond doubt: %d\n",
		many(len(f.LoadBalancers), "load balancer"), many(len(f.Routes), "route"), f.proven())
	return out.String()
}

func owner(proven bool) string {
	if proven {
		return "this cluster"
	}
	return "unknown, not touched"
}
