package instances

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/mooring-ccm/mooring/provider"
)

// List is provider.ListInstancesFunc: all servers of the project, by one query of ports and one of servers a page. Servers that are no
// nodes have no owner, and are listed all the same. The query of servers follows the query of ports. A server that was created in between
// may have no port in the list, so List asks for its ports.
func (i *Instances) List(ctx context.Context, yield func([]provider.Instance) error) error {
	naming := namingOf(i.config.Current())
	all, err := i.listPorts(ctx)
	if err != nil {
		return err
	}
	known, seen := newPorts(all), map[string]provider.Instance{}
	err = i.listServers(ctx, func(page []server) error {
		page = slices.DeleteFunc(page, deleted)
		if err := i.completePorts(ctx, known, page); err != nil {
			return err
		}
		instances := make([]provider.Instance, 0, len(page))
		for _, one := range page {
			instance := naming.instanceOf(one, known)
			if unreachable(one) {
				if instance, err = i.remembered(one); err != nil {
					return err
				}
			}
			seen[one.ID] = instance
			instances = append(instances, instance)
		}
		if len(instances) == 0 {
			return nil
		}
		return yield(instances)
	})
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.seen = seen
	return nil
}

// remembered returns what the last list said of a server of which Nova knows nothing but the ID now, because its cell is down.
func (i *Instances) remembered(of server) (provider.Instance, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, found := i.seen[of.ID]
	if !found {
		return before, fmt.Errorf("server %s exists, and its cell is down: nothing else is known of it, so the list is incomplete", of.ID)
	}
	before.State = provider.InstanceStateUnknown
	return before, nil
}

// completePorts adds ports of servers that have a fixed address and no port in the list: they are newer than the list, or belong to
// another project that has attached them.
func (i *Instances) completePorts(ctx context.Context, known ports, page []server) error {
	var without []string
	for _, one := range page {
		if len(known.byServer[one.ID]) == 0 && hasFixed(one) {
			without = append(without, one.ID)
		}
	}
	if len(without) > 0 {
		missing, err := i.listPorts(ctx, without...)
		if err != nil {
			return err
		}
		known.add(missing)
	}
	return i.trunks(ctx, known, page)
}

func hasFixed(of server) bool {
	for _, addresses := range of.Addresses {
		if slices.ContainsFunc(addresses, func(a serverAddress) bool { return a.Type == "fixed" }) {
			return true
		}
	}
	return false
}

// portsByID asks for ports by their IDs.
func (i *Instances) portsByID(ctx context.Context, ids []string) ([]port, error) {
	var all []port
	for some := range slices.Chunk(ids, idsAtOnce) {
		var answer struct {
			Ports []port `json:"ports"`
		}
		if err := i.getNetwork(ctx, &answer, url.Values{"id": some, "fields": portFields}, "ports"); err != nil {
			return nil, fmt.Errorf("listing the ports of trunks: %w", err)
		}
		all = append(all, answer.Ports...)
	}
	return all, nil
}
