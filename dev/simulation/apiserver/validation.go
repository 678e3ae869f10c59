package apiserver

import (
	"fmt"
	"net/netip"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	validationutil "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validation finds what is wrong with an object. The old one is nil for a creation.
type validation = func(object, old runtime.Object) field.ErrorList

// nameRules say which names a kind allows, where it is not a DNS subdomain.
var nameRules = map[string]apivalidation.ValidateNameFunc{
	"Service": apivalidation.NameIsDNS1035Label, "Namespace": apivalidation.NameIsDNSLabel,
	"CertificateSigningRequest": nameInPath,
}

// nameInPath allows what can stand in the path of a URL.
func nameInPath(name string, _ bool) []string {
	if name == "." || name == ".." || strings.ContainsAny(name, "/%") {
		return []string{"may not be '.' or '..', and may not contain '/' or '%'"}
	}
	return nil
}

func (t *table) validateCreate(asked *resource, object runtime.Object) field.ErrorList {
	if event, ok := object.(*corev1.Event); ok {
		return validateEvent(asked, event, nil)
	}
	rule, ok := nameRules[t.resource.Kind]
	if !ok {
		rule = apivalidation.NameIsDNSSubdomain
	}
	errs := apivalidation.ValidateObjectMetaAccessor(mustMeta(object), t.resource.namespaced, rule, field.NewPath("metadata"))
	if t.resource.rules.validate != nil {
		errs = append(errs, t.resource.rules.validate(object, nil)...)
	}
	return errs
}

func (t *table) validateUpdate(c *call, object, old runtime.Object) field.ErrorList {
	if event, ok := object.(*corev1.Event); ok {
		return validateEvent(c.resource, event, old.(*corev1.Event))
	}
	errs := apivalidation.ValidateObjectMetaAccessorUpdate(mustMeta(object), mustMeta(old), field.NewPath("metadata"))
	if service, ok := object.(*corev1.Service); ok && c.Subresource == "status" {
		return append(errs, validateServiceStatus(service)...)
	}
	if t.resource.rules.validate != nil {
		errs = append(errs, t.resource.rules.validate(object, old)...)
	}
	return errs
}

// validateEvent demands much of events.k8s.io, and little of core/v1.
func validateEvent(asked *resource, event, old *corev1.Event) field.ErrorList {
	errs := validateEventFields(event)
	if len(errs) > 0 && asked.Group == "" && old == nil {
		return errs
	}
	meta := field.NewPath("metadata")
	if old == nil {
		rule := apivalidation.ValidateNameFunc(nameInPath)
		if asked.Group != "" {
			rule = apivalidation.NameIsDNSSubdomain
		}
		return append(errs, apivalidation.ValidateObjectMetaAccessor(event, true, rule, meta)...)
	}
	errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(event, old, meta)...)
	if asked.Group == "" {
		return errs
	}
	for _, one := range []struct {
		field    string
		now, was any
	}{
		{"involvedObject", event.InvolvedObject, old.InvolvedObject}, {"reason", event.Reason, old.Reason}, {"message", event.Message, old.Message},
		{"source", event.Source, old.Source}, {"firstTimestamp", event.FirstTimestamp, old.FirstTimestamp}, {"lastTimestamp", event.LastTimestamp, old.LastTimestamp},
		{"count", event.Count, old.Count}, {"type", event.Type, old.Type}, {"eventTime", event.EventTime, old.EventTime}, {"action", event.Action, old.Action},
		{"related", event.Related, old.Related}, {"reportingController", event.ReportingController, old.ReportingController},
		{"reportingInstance", event.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(one.now, one.was, field.NewPath(one.field))...)
	}
	return errs
}

func validateEventFields(event *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	involved := field.NewPath("involvedObject", "namespace")
	if event.EventTime.IsZero() {
		about := event.InvolvedObject.Namespace
		if about == "" && event.Namespace != "" && event.Namespace != "default" || about != "" && about != event.Namespace {
			errs = append(errs, field.Invalid(involved, about, "does not match event.namespace"))
		}
		return errs
	}
	if event.InvolvedObject.Namespace == "" && event.Namespace != "default" && event.Namespace != "kube-system" {
		errs = append(errs, field.Invalid(involved, "", "does not match event.namespace"))
	}
	for _, one := range []struct{ path, value string }{
		{"reportingController", event.ReportingController}, {"reportingInstance", event.ReportingInstance}, {"action", event.Action}, {"reason", event.Reason},
	} {
		if one.value == "" {
			errs = append(errs, field.Required(field.NewPath(one.path), ""))
		}
	}
	return errs
}

func validateLease(object, _ runtime.Object) field.ErrorList {
	lease := object.(*coordinationv1.Lease)
	var errs field.ErrorList
	if seconds := lease.Spec.LeaseDurationSeconds; seconds != nil && *seconds <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "leaseDurationSeconds"), *seconds, "must be greater than 0"))
	}
	if transitions := lease.Spec.LeaseTransitions; transitions != nil && *transitions < 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "leaseTransitions"), *transitions, "must be greater than or equal to 0"))
	}
	return errs
}

func validateCSR(object, old runtime.Object) field.ErrorList {
	csr := object.(*certificatesv1.CertificateSigningRequest)
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if old == nil {
		if len(csr.Spec.Usages) == 0 {
			errs = append(errs, field.Required(spec.Child("usages"), ""))
		}
		if !strings.Contains(csr.Spec.SignerName, "/") {
			errs = append(errs, field.Invalid(spec.Child("signerName"), csr.Spec.SignerName, "must be a fully qualified domain and path of the form 'example.com/signer-name'"))
		}
		if len(csr.Spec.Request) == 0 {
			errs = append(errs, field.Invalid(spec.Child("request"), csr.Spec.Request, "PEM block type must be CERTIFICATE REQUEST"))
		}
		return errs
	}
	before := old.(*certificatesv1.CertificateSigningRequest)
	for i, condition := range csr.Status.Conditions {
		path := field.NewPath("status", "conditions").Index(i)
		if condition.Status == "" {
			errs = append(errs, field.Required(path.Child("status"), ""))
		}
	}
	for _, kind := range []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		if hasCondition(before, kind) && !hasCondition(csr, kind) {
			errs = append(errs, field.Forbidden(field.NewPath("status", "conditions"), "updates may not remove a condition of type \""+string(kind)+"\""))
		}
	}
	return errs
}

func hasCondition(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) bool {
	for _, condition := range csr.Status.Conditions {
		if condition.Type == kind {
			return true
		}
	}
	return false
}

var nodeRules = rules{
	prepareUpdate: func(subresource string, object, old runtime.Object) {
		node, before := object.(*corev1.Node), old.(*corev1.Node)
		if subresource == "status" {
			node.Spec = before.Spec
			return
		}
		node.Status = before.Status
	},
	validate: validateNode,
	defaults: func(object runtime.Object) {
		node := object.(*corev1.Node)
		if node.Status.Allocatable == nil && node.Status.Capacity != nil {
			node.Status.Allocatable = node.Status.Capacity.DeepCopy()
		}
		if node.Spec.PodCIDR != "" && len(node.Spec.PodCIDRs) == 0 {
			node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
		}
	},
	fields: unschedulable,
	reset:  map[string][]string{"": {"status"}, "status": {"spec"}},
}

// taintNotReady is the admission plugin TaintNodesByCondition.
func taintNotReady(node *corev1.Node) {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady && taint.Effect == corev1.TaintEffectNoSchedule {
			return
		}
	}
	node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
}

func validateNode(object, old runtime.Object) field.ErrorList {
	node := object.(*corev1.Node)
	errs := validateTaints(node.Spec.Taints)
	spec := field.NewPath("spec")
	for i, cidr := range node.Spec.PodCIDRs {
		errs = append(errs, validationutil.IsValidCIDR(spec.Child("podCIDRs").Index(i), cidr)...)
	}
	errs = append(errs, validateFamilies(spec.Child("podCIDRs"), node.Spec.PodCIDRs)...)
	if old == nil {
		return errs
	}
	before := old.(*corev1.Node)
	seen := map[corev1.NodeAddress]bool{}
	for i, address := range node.Status.Addresses {
		if seen[address] {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), address))
		}
		seen[address] = true
	}
	if len(before.Spec.PodCIDRs) > 0 && !equality.Semantic.DeepEqual(before.Spec.PodCIDRs, node.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(spec.Child("podCIDRs"), "node updates may not change podCIDR except from \"\" to valid"))
	}
	if before.Spec.ProviderID != "" && before.Spec.ProviderID != node.Spec.ProviderID {
		errs = append(errs, field.Forbidden(spec.Child("providerID"), "node updates may not change providerID except from \"\" to valid"))
	}
	return errs
}

// validateFamilies allows a network of each family.
func validateFamilies(path *field.Path, cidrs []string) field.ErrorList {
	if len(cidrs) < 2 {
		return nil
	}
	var errs field.ErrorList
	families := map[bool]bool{}
	for _, cidr := range cidrs {
		parsed, err := netip.ParsePrefix(cidr)
		if err != nil {
			errs = append(errs, field.InternalError(path, fmt.Errorf("invalid PodCIDRs: %w", err)))
			families = nil
			break
		}
		families[parsed.Addr().Is4()] = true
	}
	if len(families) != 2 || len(cidrs) > 2 {
		errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

// validateTaints finds taints without a key or an effect, and pairs that occur twice. The API server names metadata in the path.
func validateTaints(taints []corev1.Taint) field.ErrorList {
	var errs field.ErrorList
	type pair struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[pair]bool{}
	for i, taint := range taints {
		path := field.NewPath("metadata", "taints").Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(taint.Key, path.Child("key"))...)
		for _, message := range validationutil.IsValidLabelValue(taint.Value) {
			errs = append(errs, field.Invalid(path.Child("value"), taint.Value, message))
		}
		switch taint.Effect {
		case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		case "":
			errs = append(errs, field.Required(path.Child("effect"), ""))
		default:
			errs = append(errs, field.NotSupported(path.Child("effect"), taint.Effect,
				[]string{string(corev1.TaintEffectNoSchedule), string(corev1.TaintEffectPreferNoSchedule), string(corev1.TaintEffectNoExecute)}))
		}
		if seen[pair{taint.Key, taint.Effect}] {
			errs = append(errs, field.Duplicate(path, taint))
		}
		seen[pair{taint.Key, taint.Effect}] = true
	}
	return errs
}
