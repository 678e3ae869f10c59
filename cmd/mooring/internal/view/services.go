package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/mooring-ccm/mooring/internal/names"
)

// ServiceState is how far a Service's load balancer is.
type ServiceState string

// The states of Services.
const (
	// ServiceReady Services have the load balancer that they ask for.
	ServiceReady ServiceState = "ready"
	// ServiceNotReady Services do not have it, or not all of it.
	ServiceNotReady ServiceState = "not ready"
	// ServiceElsewhere Services are left to another controller, by the provider's word.
	ServiceElsewhere ServiceState = "elsewhere"
	// ServiceWithdrawing Services are to lose their load balancer.
	ServiceWithdrawing ServiceState = "withdrawing"
	// ServiceUntouched Services carry no word of a manager that writes the condition.
	ServiceUntouched ServiceState = "untouched"
)

// Service is a Service with a load balancer, or that shall have one.
type Service struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	State     ServiceState `json:"state"`
	// Since is from when on.
	Since time.Time `json:"since,omitzero"`
	// Class is the load balancer class that it asks for; empty for the default.
	Class string `json:"loadBalancerClass,omitempty"`
	// Addresses are its load balancer's.
	Addresses []string `json:"addresses,omitempty"`
	// Announced says whether its addresses are announced to routers; nil where that is not the provider's business.
	Announced *bool `json:"announced,omitempty"`
	// NoSession says that they are not because no router was given them.
	NoSession bool `json:"noSession,omitempty"`
	// Why is the reason of all that is not as it should be.
	Why string `json:"why,omitempty"`
	// Detail is there for a Service that was asked for by name.
	Detail *Detail `json:"detail,omitempty"`
}

// servicesOf returns a row for each Service that has a load balancer or shall have one.
func servicesOf(seen Seen) []Service {
	if seen.Services == nil {
		return nil
	}
	rows := []Service{}
	for i := range seen.Services {
		of := &seen.Services[i]
		if of.Spec.Type == corev1.ServiceTypeLoadBalancer || servicehelper.HasLBFinalizer(of) {
			rows = append(rows, serviceOf(of, seen.Events))
		}
	}
	slices.SortFunc(rows, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

func serviceOf(of *corev1.Service, events []corev1.Event) Service {
	row := Service{Namespace: of.Namespace, Name: of.Name, Class: ptr.Deref(of.Spec.LoadBalancerClass, "")}
	for _, ingress := range of.Status.LoadBalancer.Ingress {
		row.Addresses = append(row.Addresses, cmp.Or(ingress.IP, ingress.Hostname))
	}
	row.State, row.Since, row.Why = progressOf(of, events)
	announced := meta.FindStatusCondition(of.Status.Conditions, names.ConditionAnnounced)
	if announced != nil && announced.Status != metav1.ConditionUnknown {
		row.Announced = ptr.To(announced.Status == metav1.ConditionTrue)
		if !*row.Announced {
			row.NoSession = announced.Reason == names.ReasonNoSession
			row.Why = strings.TrimPrefix(row.Why+"; "+because(announced.Reason, announced.Message), "; ")
		}
	}
	return row
}

// progressOf returns how far a Service's load balancer is, since when, and why.
func progressOf(of *corev1.Service, events []corev1.Event) (state ServiceState, since time.Time, why string) {
	if of.DeletionTimestamp != nil || of.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if of.DeletionTimestamp != nil {
			since = of.DeletionTimestamp.Time
		}
		event := latest(events, "Service", of.Namespace, of.Name, string(of.UID), names.EventDeleteFailed, names.EventSyncFailed)
		if event != nil {
			why = because(event.Reason, event.Message)
		}
		return ServiceWithdrawing, since, why
	}
	ready := meta.FindStatusCondition(of.Status.Conditions, names.ConditionLoadBalancerReady)
	switch {
	case ready == nil:
		if of.Spec.LoadBalancerClass != nil {
			why = "no manager has said anything; the class is " + *of.Spec.LoadBalancerClass
		}
		return ServiceUntouched, of.CreationTimestamp.Time, why
	case ready.Status == metav1.ConditionTrue:
		return ServiceReady, ready.LastTransitionTime.Time, ""
	case ready.Reason == names.ReasonImplementedElsewhere:
		return ServiceElsewhere, ready.LastTransitionTime.Time, because(ready.Reason, ready.Message)
	default:
		return ServiceNotReady, ready.LastTransitionTime.Time, because(ready.Reason, ready.Message)
	}
}

// serviceColors are how states are painted.
var serviceColors = map[ServiceState]color{ServiceReady: green, ServiceNotReady: red, ServiceWithdrawing: yellow}

func writeServices(out *strings.Builder, style Style, now time.Time, services []Service) {
	var rows [][]cell
	for _, one := range services {
		rows = append(rows, []cell{
			{text: one.Namespace + "/" + one.Name}, {string(one.State), serviceColors[one.State]}, {text: age(now, one.Since)}, style.timestamp(one.Since),
			{text: strings.Join(one.Addresses, ", ")}, {text: one.Class}, yesNo(one.Announced), {text: one.Why},
		})
	}
	writeTable(out, style, []string{"SERVICE", "STATE", "FOR", "SINCE", "ADDRESS", "CLASS", "ANNOUNCED", "WHY"}, rows)
}
