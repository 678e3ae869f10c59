package routes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/mooring-ccm/mooring/providers/openstack/session"
)

// attempts is how often a list is replaced again after another client has changed it.
const attempts = 4

// addressesAtOnce is how many addresses a query for ports names.
const addressesAtOnce = 50

// router is what of a router is looked at.
type router struct {
	Routes   *[]route `json:"routes"`
	Revision int      `json:"revision_number"`
}

// port is what of a port is looked at. What Neutron leaves out is of an extension that it does not have.
type port struct {
	ID        string `json:"id"`
	NetworkID string `json:"network_id"`
	FixedIPs  []struct {
		Address string `json:"ip_address"`
	} `json:"fixed_ips"`
	Pairs    *[]pair `json:"allowed_address_pairs"`
	Security *bool   `json:"port_security_enabled"`
	Revision int     `json:"revision_number"`
}

func (r *Routes) call(ctx context.Context, make func(ctx context.Context, network *gophercloud.ServiceClient) error) error {
	return r.session.Do(ctx, func(ctx context.Context, clients *session.Clients) error {
		network, err := clients.Network(ctx)
		if err != nil {
			return err
		}
		return make(ctx, network)
	})
}

// router asks for the router.
func (r *Routes) router(ctx context.Context) (router, error) {
	var answer struct {
		Router *router `json:"router"`
	}
	id := r.config.Current().Route.RouterID
	err := r.call(ctx, func(ctx context.Context, network *gophercloud.ServiceClient) error {
		return session.Get(ctx, network, &answer, nil, "routers", id)
	})
	if err == nil && (answer.Router == nil || answer.Router.Routes == nil) {
		err = errors.New("the answer holds no routes: Neutron needs the extension extraroute")
	}
	if err != nil {
		return router{}, fmt.Errorf("router %s: %w", id, err)
	}
	return *answer.Router, nil
}

// change makes a step: by the atomic calls where Neutron has them, whether or not it lists their extension, and else by the whole list.
func (r *Routes) change(ctx context.Context, s step) error {
	if !r.whole.Load() {
		offered, err := r.changeAtomically(ctx, s)
		if offered {
			return err
		}
		r.whole.Store(true)
	}
	for range attempts {
		there, err := r.router(ctx)
		if err != nil {
			return err
		}
		routes, changed := s.applied(*there.Routes)
		if !changed {
			return nil
		}
		err = r.put(ctx, routes, strconv.Itoa(there.Revision))
		if session.StatusOf(err) != http.StatusPreconditionFailed {
			return err
		}
	}
	return fmt.Errorf("router %s: another client changes it all the time; given up after %d attempts", r.config.Current().Route.RouterID, attempts)
}

// changeAtomically adds first, so a destination whose next hop changes has a route at all times. It reports whether Neutron has
// the calls.
func (r *Routes) changeAtomically(ctx context.Context, s step) (offered bool, err error) {
	for _, action := range []struct {
		name   string
		routes []route
	}{{"add_extraroutes", s.add}, {"remove_extraroutes", s.remove}} {
		if len(action.routes) == 0 {
			continue
		}
		err := r.put(ctx, action.routes, "", action.name)
		var answer *session.AnswerError
		if errors.As(err, &answer) && answer.Status == http.StatusNotFound && answer.Kind != "RouterNotFound" {
			return false, nil
		}
		if err != nil {
			return true, err
		}
	}
	return true, nil
}

func (r *Routes) put(ctx context.Context, routes []route, revision string, action ...string) error {
	id := r.config.Current().Route.RouterID
	body := map[string]any{"router": map[string]any{"routes": routes}}
	err := r.call(ctx, func(ctx context.Context, network *gophercloud.ServiceClient) error {
		return session.Put(ctx, network, body, nil, revision, append([]string{"routers", id}, action...)...)
	})
	if err != nil {
		return fmt.Errorf("router %s: %w", id, err)
	}
	return nil
}

// ports asks for the ports with some addresses in the networks of the router.
func (r *Routes) ports(ctx context.Context, addresses []string) (map[string]*port, error) {
	networks := map[string]bool{}
	interfaces, err := r.listPorts(ctx, url.Values{"device_id": {r.config.Current().Route.RouterID}, "fields": {"id", "network_id"}})
	if err != nil {
		return nil, err
	}
	for _, one := range interfaces {
		networks[one.NetworkID] = true
	}
	byAddress := map[string]*port{}
	for some := range slices.Chunk(addresses, addressesAtOnce) {
		query := url.Values{}
		for _, address := range some {
			query.Add("fixed_ips", "ip_address="+address)
		}
		found, err := r.listPorts(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			if !networks[one.NetworkID] {
				continue // the same address in another network
			}
			for _, fixed := range one.FixedIPs {
				byAddress[canonical(fixed.Address)] = &one
			}
		}
	}
	return byAddress, nil
}

// canonical is an address in the one way in which it is compared.
func canonical(address string) string {
	if parsed, err := netip.ParseAddr(address); err == nil {
		return parsed.Unmap().String()
	}
	return address
}

func (r *Routes) listPorts(ctx context.Context, query url.Values) ([]port, error) {
	var answer struct {
		Ports *[]port `json:"ports"`
	}
	err := r.call(ctx, func(ctx context.Context, network *gophercloud.ServiceClient) error {
		return session.Get(ctx, network, &answer, query, "ports")
	})
	if err == nil && answer.Ports == nil {
		err = errors.New("the answer holds no list")
	}
	if err != nil {
		return nil, fmt.Errorf("listing ports: %w", err)
	}
	return *answer.Ports, nil
}

// allow changes which addresses a port may send from, and what is known of it. Nothing is done where Neutron or the port does not check that.
func (r *Routes) allow(ctx context.Context, of *port, add, remove []string) error {
	if of.Pairs == nil || of.Security != nil && !*of.Security {
		return nil
	}
	pairs, changed := pairsAfter(*of.Pairs, add, remove)
	if !changed {
		return nil
	}
	body := map[string]any{"port": map[string]any{"allowed_address_pairs": pairs}}
	revision := ""
	if of.Revision > 0 {
		revision = strconv.Itoa(of.Revision)
	}
	var answer struct {
		Port port `json:"port"`
	}
	err := r.call(ctx, func(ctx context.Context, network *gophercloud.ServiceClient) error {
		return session.Put(ctx, network, body, &answer, revision, "ports", of.ID)
	})
	if err != nil {
		return fmt.Errorf("allowing addresses on port %s: %w", of.ID, err)
	}
	of.Pairs, of.Revision = &pairs, answer.Port.Revision
	return nil
}
