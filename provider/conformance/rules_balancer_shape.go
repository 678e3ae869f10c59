package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	v1 "k8s.io/api/core/v1"
)

func balancerShapeRules() []Rule {
	return []Rule{
		{
			ID:     "balancer-status",
			Text:   "The status of a load balancer that is ready has an IP address or a host name, and nothing that is neither.",
			Source: Source{"v1.LoadBalancerStatus", "LoadBalancerStatus represents the status of a load-balancer."},
			Needs:  []Need{NeedLoadBalancer, NeedInstance},
			check: func(ctx context.Context, t *trial) error {
				_, status, _, err := t.ensureNew(ctx)
				if err != nil {
					return err
				}
				t.usable(status)
				return nil
			},
		},
		{
			ID:   "balancer-ip-mode",
			Text: "An ipMode is VIP or Proxy, and stands beside an IP address only.",
			Source: Source{"v1.LoadBalancerIngress.IPMode",
				"IPMode specifies how the load-balancer IP behaves, and may only be specified when the ip field is specified."},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkIPMode,
		},
		{
			ID:     "balancer-ports",
			Text:   "A load balancer listens on the ports of its Service and no others, also after they have changed.",
			Source: Source{"provider.LoadBalancer.Ports", "Ports are the listeners, each with Protocol, Port and NodePort."},
			Needs:  []Need{NeedLoadBalancer, NeedInstance},
			check:  checkPorts,
		},
		{
			ID:     "balancer-protocols",
			Text:   "Every port has the protocol that the Service says; a provider that cannot do that returns an error.",
			Source: Source{"v1.ServicePort.Protocol", `The IP protocol for this port. Supports "TCP", "UDP", and "SCTP".`},
			Needs:  []Need{NeedLoadBalancer, NeedInstance},
			check:  checkProtocols,
		},
		{
			ID:   "balancer-source-ranges",
			Text: "Only the Service's source ranges may connect, and everybody when they are taken away again.",
			Source: Source{"v1.ServiceSpec.LoadBalancerSourceRanges",
				"If specified and supported by the platform, this will restrict traffic through the cloud-provider load-balancer"},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkSourceRanges,
		},
		{
			ID:   "balancer-health-check",
			Text: "With externalTrafficPolicy Local, targets are checked by the Service's health check node port.",
			Source: Source{"v1.ServiceSpec.HealthCheckNodePort",
				"External systems (e.g. load-balancers) can use this port to determine if a given node holds endpoints"},
			Needs: []Need{NeedLoadBalancer, NeedInstance},
			check: checkHealthCheck,
		},
		{
			ID:     "balancer-families",
			Text:   "A status has an address of each of the Service's IP families and of no other, or there is an error.",
			Source: Source{"v1.ServiceSpec.IPFamilies", "IPFamilies is a list of IP families (e.g. IPv4, IPv6) assigned to this service."},
			Needs:  []Need{NeedLoadBalancer, NeedInstance},
			check:  checkFamilies,
		},
	}
}

// usable tries that clients can be sent to what a status shows.
func (t *trial) usable(status *v1.LoadBalancerStatus) {
	if len(status.Ingress) == 0 {
		t.sawf("EnsureLoadBalancer returned a status without an address, and no error")
	}
	for _, ingress := range status.Ingress {
		if ingress.IP == "" && ingress.Hostname == "" {
			t.sawf("the status holds an entry without IP address and host name")
		}
		if _, err := netip.ParseAddr(ingress.IP); ingress.IP != "" && err != nil {
			t.sawf("the status holds the IP address %q: %v", ingress.IP, err)
		}
	}
}

func checkIPMode(ctx context.Context, t *trial) error {
	_, status, _, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	for _, ingress := range status.Ingress {
		switch {
		case ingress.IPMode == nil:
		case ingress.IP == "":
			t.sawf("ipMode %q stands beside no IP address, but %q", *ingress.IPMode, ingress.Hostname)
		case *ingress.IPMode != v1.LoadBalancerIPModeVIP && *ingress.IPMode != v1.LoadBalancerIPModeProxy:
			t.sawf("ipMode of %s is %q", ingress.IP, *ingress.IPMode)
		}
	}
	return nil
}

func checkPorts(ctx context.Context, t *trial) error {
	service, _, nodes, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	if err := t.hasPorts(ctx, service); err != nil {
		return err
	}
	for _, ports := range [][]v1.ServicePort{
		{service.Spec.Ports[0], t.port("https", v1.ProtocolTCP, 443, 1)},
		{t.port("https", v1.ProtocolTCP, 443, 2)},
	} {
		service.Spec.Ports = ports
		if _, err := t.ensure(ctx, service, nodes); err != nil {
			return err
		}
		if err := t.hasPorts(ctx, service); err != nil {
			return err
		}
	}
	return nil
}

func checkProtocols(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 1)
	if err != nil {
		return err
	}
	refused := 0
	var unavailable *unavailableError
	for _, protocols := range [][]v1.Protocol{{v1.ProtocolUDP}, {v1.ProtocolTCP, v1.ProtocolUDP}} {
		service := t.service()
		service.Spec.Ports = nil
		for i, protocol := range protocols {
			service.Spec.Ports = append(service.Spec.Ports, t.port(fmt.Sprintf("p%d", i), protocol, 5353, int32(i)))
		}
		if _, err := t.ensure(ctx, service, nodes); errors.As(err, &unavailable) {
			return err
		} else if err != nil {
			refused++
			continue
		}
		if err := t.hasPorts(ctx, service); err != nil {
			return err
		}
	}
	if refused == 2 {
		return t.offered("UDP")
	}
	return nil
}

// offered is for a rule that a provider kept by refusing everything that the rule is about: it was not tried.
func (t *trial) offered(what string) error {
	return unavailable("the provider refuses %s", what)
}

func checkSourceRanges(ctx context.Context, t *trial) error {
	service, _, nodes, err := t.ensureNew(ctx)
	if err != nil {
		return err
	}
	for _, ranges := range [][]string{{"192.0.2.0/24", "198.51.100.0/24"}, {"192.0.2.0/24"}, nil} {
		service.Spec.LoadBalancerSourceRanges = ranges
		if _, err := t.ensure(ctx, service, nodes); err != nil {
			return err
		}
		err := t.eventually(ctx, func(ctx context.Context) error {
			view, err := t.inspect(ctx, service)
			if err != nil {
				return err
			}
			if view.SourceRanges == nil {
				return unavailable("no hook returns the source ranges of a load balancer")
			}
			if got := slices.Sorted(slices.Values(view.SourceRanges)); !slices.Equal(got, ranges) {
				return fmt.Errorf("the source ranges are %q; the service's are %q", got, ranges)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func checkHealthCheck(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 1)
	if err != nil {
		return err
	}
	service := t.service()
	service.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	service.Spec.HealthCheckNodePort = firstNodePort + 1000
	if _, err := t.ensure(ctx, service, nodes); err != nil {
		return err
	}
	return t.eventually(ctx, func(ctx context.Context) error {
		view, err := t.inspect(ctx, service)
		if err != nil {
			return err
		}
		if view.HealthCheckPort == nil {
			return unavailable("no hook returns the health check of a load balancer")
		}
		if *view.HealthCheckPort != service.Spec.HealthCheckNodePort {
			return fmt.Errorf("targets are checked by port %d; the service's health check node port is %d",
				*view.HealthCheckPort, service.Spec.HealthCheckNodePort)
		}
		return nil
	})
}

func checkFamilies(ctx context.Context, t *trial) error {
	nodes, err := t.nodes(ctx, 1)
	if err != nil {
		return err
	}
	var unavailable *unavailableError
	tried := false
	for _, families := range [][]v1.IPFamily{{v1.IPv4Protocol}, {v1.IPv6Protocol}, {v1.IPv4Protocol, v1.IPv6Protocol}} {
		service := t.service()
		policy := v1.IPFamilyPolicySingleStack
		if len(families) > 1 {
			policy = v1.IPFamilyPolicyRequireDualStack
		}
		service.Spec.IPFamilies, service.Spec.IPFamilyPolicy = families, &policy
		status, err := t.ensure(ctx, service, nodes)
		if errors.As(err, &unavailable) {
			return err
		}
		if err != nil {
			continue
		}
		tried = true
		if got := familiesOf(status); got != nil && !slices.Equal(got, families) {
			t.sawf("the addresses of a service with families %q have families %q", families, got)
		}
	}
	if !tried {
		return t.offered("every IP family")
	}
	return nil
}

// familiesOf returns the families of a status, IPv4 first, or nil if host names hide them or an address is invalid.
func familiesOf(status *v1.LoadBalancerStatus) []v1.IPFamily {
	families := []v1.IPFamily{}
	for _, ingress := range status.Ingress {
		address, err := netip.ParseAddr(ingress.IP)
		if err != nil {
			return nil
		}
		family := v1.IPv6Protocol
		if address.Unmap().Is4() {
			family = v1.IPv4Protocol
		}
		families = append(families, family)
	}
	slices.Sort(families)
	return slices.Compact(families)
}
