package apiserver

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	validationutil "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// firstNodePort and nodePorts are the default range of node ports.
const (
	firstNodePort = 30000
	nodePorts     = 2768
	// chosenPorts are left to clients that choose ports themselves.
	chosenPorts = 86
	// chosenAddresses are left to clients that choose addresses themselves.
	chosenAddresses = 256
)

var serviceRules = rules{
	defaults: defaultService,
	prepareCreate: func(_ *call, object runtime.Object) {
		object.(*corev1.Service).Status = corev1.ServiceStatus{}
	},
	prepareUpdate: func(subresource string, object, old runtime.Object) {
		service, before := object.(*corev1.Service), old.(*corev1.Service)
		if subresource == "status" {
			service.Spec = before.Spec
			return
		}
		service.Status = before.Status
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			service.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		}
	},
	validate: validateService,
	fields: func(object runtime.Object) fields.Set {
		service := object.(*corev1.Service)
		return fields.Set{"spec.clusterIP": service.Spec.ClusterIP, "spec.type": string(service.Spec.Type)}
	},
	reset: map[string][]string{"": {"status"}, "status": {"spec"}},
}

func isLoadBalancer(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeLoadBalancer }

func needsClusterIP(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

// needsNodePort says whether a Service may have node ports, getsNodePort whether it gets some.
func needsNodePort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || isLoadBalancer(s)
}

func getsNodePort(s *corev1.Service) bool {
	allocate := s.Spec.AllocateLoadBalancerNodePorts
	return s.Spec.Type == corev1.ServiceTypeNodePort || isLoadBalancer(s) && (allocate == nil || *allocate)
}

func needsHealthPort(s *corev1.Service) bool {
	return isLoadBalancer(s) && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

func external(s *corev1.Service) bool {
	return isLoadBalancer(s) || s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0
}

// defaultService does what SetDefaults_Service of Kubernetes does.
func defaultService(object runtime.Object) {
	service := object.(*corev1.Service)
	spec := &service.Spec
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	if spec.SessionAffinity == corev1.ServiceAffinityNone {
		spec.SessionAffinityConfig = nil
	}
	if config := spec.SessionAffinityConfig; spec.SessionAffinity == corev1.ServiceAffinityClientIP && (config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil) {
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds)}}
	}
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	for i := range spec.Ports {
		port := &spec.Ports[i]
		if port.Protocol == "" {
			port.Protocol = corev1.ProtocolTCP
		}
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	if external(service) && spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.InternalTrafficPolicy == nil && needsClusterIP(service) {
		spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	}
	if !isLoadBalancer(service) {
		return
	}
	if spec.AllocateLoadBalancerNodePorts == nil {
		spec.AllocateLoadBalancerNodePorts = new(true)
	}
	for i := range service.Status.LoadBalancer.Ingress {
		if ingress := &service.Status.LoadBalancer.Ingress[i]; ingress.IP != "" && ingress.IPMode == nil {
			ingress.IPMode = new(corev1.LoadBalancerIPModeVIP)
		}
	}
}

// allocate gives a Service its addresses and ports, or keeps those of before.
func (s *Server) allocate(service, before *corev1.Service) error {
	if before != nil {
		keepAllocated(service, before)
		dropForType(service, before)
	}
	normalizeClusterIPs(service, before)
	if needsClusterIP(service) {
		if err := s.allocateFamilies(service, before); err != nil {
			return err
		}
		if err := s.allocateAddresses(service, before); err != nil {
			return err
		}
	}
	return s.allocatePorts(service, before)
}

// keepAllocated fills in what an update left out.
func keepAllocated(service, before *corev1.Service) {
	if needsClusterIP(service) && needsClusterIP(before) {
		if service.Spec.ClusterIP == "" {
			service.Spec.ClusterIP = before.Spec.ClusterIP
		}
		if len(service.Spec.ClusterIPs) == 0 {
			service.Spec.ClusterIPs = slices.Clone(before.Spec.ClusterIPs)
		}
	}
	if needsNodePort(service) && needsNodePort(before) {
		used, named := map[int32]bool{}, map[string]int32{}
		for _, port := range service.Spec.Ports {
			used[port.NodePort] = true
		}
		for _, port := range before.Spec.Ports {
			named[port.Name] = port.NodePort
		}
		for i := range service.Spec.Ports {
			if port := &service.Spec.Ports[i]; port.NodePort == 0 && !used[named[port.Name]] {
				port.NodePort = named[port.Name]
			}
		}
	}
	if needsHealthPort(service) && needsHealthPort(before) && service.Spec.HealthCheckNodePort == 0 {
		service.Spec.HealthCheckNodePort = before.Spec.HealthCheckNodePort
	}
}

// dropForType clears what a change of the type made superfluous, unless the client changed it too.
func dropForType(service, before *corev1.Service) {
	spec, old := &service.Spec, &before.Spec
	if needsClusterIP(before) && !needsClusterIP(service) {
		if spec.ClusterIP == old.ClusterIP && slices.Equal(spec.ClusterIPs, old.ClusterIPs) {
			spec.ClusterIP, spec.ClusterIPs = "", nil
		}
		if slices.Equal(spec.IPFamilies, old.IPFamilies) {
			spec.IPFamilies = nil
		}
		if equality.Semantic.DeepEqual(spec.IPFamilyPolicy, old.IPFamilyPolicy) {
			spec.IPFamilyPolicy = nil
		}
	}
	newPort := slices.ContainsFunc(spec.Ports, func(port corev1.ServicePort) bool {
		return port.NodePort != 0 && !slices.ContainsFunc(old.Ports, func(other corev1.ServicePort) bool { return other.NodePort == port.NodePort })
	})
	if needsNodePort(before) && !needsNodePort(service) && !newPort {
		for i := range spec.Ports {
			spec.Ports[i].NodePort = 0
		}
	}
	if needsHealthPort(before) && !needsHealthPort(service) && spec.HealthCheckNodePort == old.HealthCheckNodePort {
		spec.HealthCheckNodePort = 0
	}
	if isLoadBalancer(before) && !isLoadBalancer(service) {
		if equality.Semantic.DeepEqual(spec.AllocateLoadBalancerNodePorts, old.AllocateLoadBalancerNodePorts) {
			spec.AllocateLoadBalancerNodePorts = nil
		}
		if equality.Semantic.DeepEqual(spec.LoadBalancerClass, old.LoadBalancerClass) {
			spec.LoadBalancerClass = nil
		}
	}
	if external(before) && !external(service) && spec.ExternalTrafficPolicy == old.ExternalTrafficPolicy {
		spec.ExternalTrafficPolicy = ""
	}
}

// normalizeClusterIPs keeps clusterIP and clusterIPs alike, as clients know one of them only.
func normalizeClusterIPs(service, before *corev1.Service) {
	spec := &service.Spec
	if before == nil {
		if spec.ClusterIP != "" && len(spec.ClusterIPs) == 0 {
			spec.ClusterIPs = []string{spec.ClusterIP}
		}
		return
	}
	same := slices.Equal(spec.ClusterIPs, before.Spec.ClusterIPs)
	switch {
	case before.Spec.ClusterIP != "" && spec.ClusterIP == "" && same:
		spec.ClusterIPs = nil
	case before.Spec.ClusterIP != spec.ClusterIP && same:
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
}

// shownService leaves out a field that is stored for ExternalName, and not shown.
func shownService(object runtime.Object) runtime.Object {
	service, ok := object.(*corev1.Service)
	if !ok || needsClusterIP(service) || service.Spec.InternalTrafficPolicy == nil {
		return object
	}
	shown := *service // the rest is shared, as what is stored is never changed
	shown.Spec.InternalTrafficPolicy = nil
	return &shown
}

func familyOf(prefix netip.Prefix) corev1.IPFamily {
	if prefix.Addr().Is4() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// allocateFamilies sets the families and their policy.
func (s *Server) allocateFamilies(service, before *corev1.Service) error {
	spec := &service.Spec
	networks := s.options.ServiceNetworks
	headless := spec.ClusterIP == corev1.ClusterIPNone
	if before != nil && needsClusterIP(before) && spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 2 {
		spec.IPFamilies = spec.IPFamilies[:1] // a downgrade
		spec.ClusterIPs = spec.ClusterIPs[:min(1, len(spec.ClusterIPs))]
	}
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		if len(spec.IPFamilies) == 2 || len(spec.ClusterIPs) == 2 || headless && len(spec.Selector) == 0 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	if len(spec.IPFamilies) == 0 && !headless {
		for _, address := range spec.ClusterIPs {
			if parsed, err := netip.ParseAddr(address); err == nil {
				spec.IPFamilies = append(spec.IPFamilies, familyOf(netip.PrefixFrom(parsed, 0)))
			}
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{familyOf(networks[0])}
	}
	dual := *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(networks) < 2 && !headless {
		return apierrors.NewInvalid(serviceKind, service.Name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), *spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"),
		})
	}
	if dual && len(spec.IPFamilies) == 1 && (len(networks) > 1 || headless) {
		other := corev1.IPv6Protocol
		if spec.IPFamilies[0] == corev1.IPv6Protocol {
			other = corev1.IPv4Protocol
		}
		spec.IPFamilies = append(spec.IPFamilies, other)
	}
	return nil
}

var serviceKind = corev1.SchemeGroupVersion.WithKind("Service").GroupKind()

// allocateAddresses gives a Service an address of each of its families.
func (s *Server) allocateAddresses(service, before *corev1.Service) error {
	spec := &service.Spec
	if spec.ClusterIP == corev1.ClusterIPNone {
		spec.ClusterIPs = []string{corev1.ClusterIPNone}
		return nil
	}
	if before != nil && len(before.Spec.ClusterIPs) > 0 && len(spec.ClusterIPs) > 0 && spec.ClusterIPs[0] != before.Spec.ClusterIPs[0] {
		return nil // which is not allowed, as the validation says
	}
	used := map[string]bool{}
	for _, other := range s.tables["/services"].objects {
		if other.meta.GetNamespace() != service.Namespace || other.meta.GetName() != service.Name {
			for _, address := range other.object.(*corev1.Service).Spec.ClusterIPs {
				used[address] = true
			}
		}
	}
	for _, address := range spec.ClusterIPs {
		path := field.NewPath("spec", "clusterIPs")
		parsed, err := netip.ParseAddr(address)
		kept := before != nil && slices.Contains(before.Spec.ClusterIPs, address)
		switch {
		case kept:
		case err != nil || !slices.ContainsFunc(s.options.ServiceNetworks, func(p netip.Prefix) bool { return p.Contains(parsed) }):
			return apierrors.NewInvalid(serviceKind, service.Name, field.ErrorList{
				field.Invalid(path, spec.ClusterIPs, "failed to allocate IP "+address+": the provided network does not match the current range"),
			})
		case used[address]:
			return apierrors.NewInvalid(serviceKind, service.Name, field.ErrorList{
				field.Invalid(path, spec.ClusterIPs, "failed to allocate IP "+address+": provided IP is already allocated"),
			})
		}
	}
	for _, family := range spec.IPFamilies[len(spec.ClusterIPs):] {
		for _, network := range s.options.ServiceNetworks {
			if familyOf(network) == family {
				spec.ClusterIPs = append(spec.ClusterIPs, s.freeAddress(service, network, used))
			}
		}
	}
	spec.ClusterIP = spec.ClusterIPs[0]
	return nil
}

// freeAddress draws an address of a network, and takes the next free one.
func (s *Server) freeAddress(service *corev1.Service, network netip.Prefix, used map[string]bool) string {
	hosts := uint64(1) << min(network.Addr().BitLen()-network.Bits(), 32)
	chosen := min(chosenAddresses, max(hosts/16, 1))
	number := s.draw("address" + network.String() + service.Namespace + "/" + service.Name)
	for {
		number++
		var offset [8]byte
		binary.BigEndian.PutUint64(offset[:], chosen+number%(hosts-1-chosen))
		sum := new(big.Int).Add(new(big.Int).SetBytes(network.Masked().Addr().AsSlice()), new(big.Int).SetBytes(offset[:]))
		address, _ := netip.AddrFromSlice(sum.FillBytes(make([]byte, network.Addr().BitLen()/8)))
		if !used[address.String()] {
			return address.String()
		}
	}
}

type usedPort struct {
	protocol corev1.Protocol
	port     int32
}

// allocatePorts gives a Service its node ports and the port of its health check.
func (s *Server) allocatePorts(service, before *corev1.Service) error {
	kept := map[usedPort]bool{}
	if before != nil {
		for _, port := range before.Spec.Ports {
			kept[usedPort{port.Protocol, port.NodePort}] = true
		}
	}
	used := map[usedPort]bool{}
	for _, other := range s.tables["/services"].objects {
		if other.meta.GetNamespace() != service.Namespace || other.meta.GetName() != service.Name {
			spec := other.object.(*corev1.Service).Spec
			for _, port := range spec.Ports {
				used[usedPort{port.Protocol, port.NodePort}] = true
			}
			used[usedPort{corev1.ProtocolTCP, spec.HealthCheckNodePort}] = true
		}
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if kept[usedPort{port.Protocol, port.NodePort}] {
			continue
		}
		if problem := portProblem(port.NodePort, used[usedPort{port.Protocol, port.NodePort}]); problem != "" && needsNodePort(service) {
			return apierrors.NewInvalid(serviceKind, service.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), port.NodePort, problem)})
		}
		used[usedPort{port.Protocol, port.NodePort}] = port.NodePort != 0
	}
	if getsNodePort(service) {
		for i := range service.Spec.Ports {
			if port := &service.Spec.Ports[i]; port.NodePort == 0 {
				port.NodePort = s.freePort(service, port, used)
			}
		}
	}
	if needsHealthPort(service) && service.Spec.HealthCheckNodePort == 0 {
		service.Spec.HealthCheckNodePort = s.freePort(service, &corev1.ServicePort{Protocol: corev1.ProtocolTCP}, used)
	}
	return nil
}

func portProblem(port int32, taken bool) string {
	switch {
	case port == 0:
		return ""
	case port < firstNodePort || port >= firstNodePort+nodePorts:
		return fmt.Sprintf("provided port is not in the valid range. The range of valid ports is %d-%d", firstNodePort, firstNodePort+nodePorts-1)
	case taken:
		return "provided port is already allocated"
	}
	return ""
}

// freePort draws a port that is free for all protocols, or that another protocol of the same port of the Service has.
func (s *Server) freePort(service *corev1.Service, port *corev1.ServicePort, used map[usedPort]bool) int32 {
	for _, other := range service.Spec.Ports {
		if port.Port != 0 && other.Port == port.Port && other.Protocol != port.Protocol && other.NodePort != 0 && !used[usedPort{port.Protocol, other.NodePort}] {
			return other.NodePort
		}
	}
	number := s.draw("port" + service.Namespace + "/" + service.Name)
	for {
		number++
		candidate := int32(firstNodePort + chosenPorts + number%(nodePorts-chosenPorts))
		free := !slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == candidate })
		for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			free = free && !used[usedPort{protocol, candidate}]
		}
		if free {
			return candidate
		}
	}
}

func validateServiceStatus(service *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status", "loadBalancer", "ingress")
	if !isLoadBalancer(service) && len(service.Status.LoadBalancer.Ingress) > 0 {
		return append(errs, field.Forbidden(path, "may only be used when `spec.type` is \"LoadBalancer\""))
	}
	for i, ingress := range service.Status.LoadBalancer.Ingress {
		if ingress.IP != "" {
			errs = append(errs, validationutil.IsValidIP(path.Index(i).Child("ip"), ingress.IP)...)
		}
		if ingress.IP != "" && ingress.IPMode == nil {
			errs = append(errs, field.Required(path.Index(i).Child("ipMode"), "must be specified when `ip` is set"))
		}
		if ingress.IP == "" && ingress.IPMode != nil {
			errs = append(errs, field.Forbidden(path.Index(i).Child("ipMode"), "may not be specified when `ip` is not set"))
		}
	}
	return errs
}

func validateService(object, old runtime.Object) field.ErrorList {
	service := object.(*corev1.Service)
	spec, path := &service.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if old != nil {
		errs = append(errs, validateServiceChange(service, old.(*corev1.Service))...)
	}
	if len(spec.Ports) == 0 && spec.ClusterIP != corev1.ClusterIPNone && needsClusterIP(service) {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	if !needsClusterIP(service) {
		errs = append(errs, validateExternalName(spec)...)
	}
	if spec.ClusterIP == corev1.ClusterIPNone && (isLoadBalancer(service) || spec.Type == corev1.ServiceTypeNodePort) {
		errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), spec.ClusterIP, "may not be set to 'None' for this type"))
	}
	errs = append(errs, validatePorts(service)...)
	for i, source := range spec.LoadBalancerSourceRanges {
		if !isLoadBalancer(service) && i == 0 {
			errs = append(errs, field.Forbidden(path.Child("LoadBalancerSourceRanges"), "may only be used when `type` is 'LoadBalancer'"))
		}
		errs = append(errs, validationutil.IsValidCIDR(path.Child("LoadBalancerSourceRanges").Index(i), source)...)
	}
	if spec.AllocateLoadBalancerNodePorts != nil && !isLoadBalancer(service) {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'"))
	}
	if spec.LoadBalancerClass != nil && !isLoadBalancer(service) {
		errs = append(errs, field.Forbidden(path.Child("loadBalancerClass"), "may only be used when `type` is 'LoadBalancer'"))
	}
	return append(errs, validateTrafficPolicies(service)...)
}

func validateExternalName(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if spec.ExternalName == "" {
		errs = append(errs, field.Required(path.Child("externalName"), ""))
	}
	if len(spec.ClusterIPs) > 0 {
		errs = append(errs, field.Forbidden(path.Child("clusterIPs"), "may not be set for ExternalName services"))
	}
	if len(spec.IPFamilies) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ipFamilies"), "may not be set for ExternalName services"))
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, field.Forbidden(path.Child("ipFamilyPolicy"), "may not be set for ExternalName services"))
	}
	return errs
}

func validateServiceChange(service, before *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if needsClusterIP(service) && needsClusterIP(before) && len(before.Spec.ClusterIPs) > 0 && (len(service.Spec.ClusterIPs) == 0 || service.Spec.ClusterIPs[0] != before.Spec.ClusterIPs[0]) {
		errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), service.Spec.ClusterIPs, "may not change once set"))
	}
	if isLoadBalancer(service) && isLoadBalancer(before) && !equality.Semantic.DeepEqual(service.Spec.LoadBalancerClass, before.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(path.Child("loadBalancerClass"), service.Spec.LoadBalancerClass, "may not change once set"))
	}
	if needsHealthPort(service) && needsHealthPort(before) && service.Spec.HealthCheckNodePort != before.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(path.Child("healthCheckNodePort"), "field is immutable"))
	}
	return errs
}

func validateTrafficPolicies(service *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	spec, path := &service.Spec, field.NewPath("spec")
	policy := spec.ExternalTrafficPolicy
	switch {
	case !external(service) && policy != "":
		errs = append(errs, field.Invalid(path.Child("externalTrafficPolicy"), policy, "may only be set for externally-accessible services"))
	case external(service) && policy != corev1.ServiceExternalTrafficPolicyCluster && policy != corev1.ServiceExternalTrafficPolicyLocal:
		errs = append(errs, field.NotSupported(path.Child("externalTrafficPolicy"), policy, []string{"Cluster", "Local"}))
	}
	if !needsHealthPort(service) && spec.HealthCheckNodePort != 0 {
		errs = append(errs, field.Invalid(path.Child("healthCheckNodePort"), spec.HealthCheckNodePort, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	return errs
}

func validatePorts(service *corev1.Service) field.ErrorList {
	var errs field.ErrorList
	names, nodes, seen := map[string]bool{}, map[usedPort]bool{}, map[usedPort]bool{}
	for i, port := range service.Spec.Ports {
		path := field.NewPath("spec", "ports").Index(i)
		switch {
		case port.Name == "" && len(service.Spec.Ports) > 1:
			errs = append(errs, field.Required(path.Child("name"), ""))
		case port.Name != "" && names[port.Name]:
			errs = append(errs, field.Duplicate(path.Child("name"), port.Name))
		case port.Name != "":
			for _, message := range validationutil.IsDNS1123Label(port.Name) {
				errs = append(errs, field.Invalid(path.Child("name"), port.Name, message))
			}
		}
		names[port.Name] = true
		for _, message := range validationutil.IsValidPortNum(int(port.Port)) {
			errs = append(errs, field.Invalid(path.Child("port"), port.Port, message))
		}
		switch port.Protocol {
		case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		default:
			errs = append(errs, field.NotSupported(path.Child("protocol"), port.Protocol, []string{"SCTP", "TCP", "UDP"}))
		}
		if port.TargetPort.Type == intstr.Int {
			for _, message := range validationutil.IsValidPortNum(port.TargetPort.IntValue()) {
				errs = append(errs, field.Invalid(path.Child("targetPort"), port.TargetPort, message))
			}
		}
		if port.NodePort != 0 && service.Spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Forbidden(path.Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
		}
		errs = append(errs, duplicatePorts(path, port, nodes, seen)...)
	}
	return errs
}

func duplicatePorts(path *field.Path, port corev1.ServicePort, nodes, seen map[usedPort]bool) field.ErrorList {
	var errs field.ErrorList
	if node := (usedPort{port.Protocol, port.NodePort}); port.NodePort != 0 {
		if nodes[node] {
			errs = append(errs, field.Duplicate(path.Child("nodePort"), port.NodePort))
		}
		nodes[node] = true
	}
	pair := usedPort{port.Protocol, port.Port}
	if seen[pair] {
		errs = append(errs, field.Duplicate(path, corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}))
	}
	seen[pair] = true
	return errs
}
