package cloudsim

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mooring-ccm/mooring/providers/sim/api"
)

const maxPageSize = 10000

// ValidateKnobs returns everything that is wrong with knobs.
func ValidateKnobs(knobs api.Knobs) field.ErrorList {
	var errs field.ErrorList
	durations := []struct {
		name  string
		value time.Duration
	}{
		{"latency", knobs.Latency.Duration}, {"latencyJitter", knobs.LatencyJitter.Duration}, {"listLag", knobs.ListLag.Duration},
		{"instanceDelay", knobs.InstanceDelay.Duration}, {"loadBalancerDelay", knobs.LoadBalancerDelay.Duration},
	}
	for _, d := range durations {
		if d.value < 0 {
			errs = append(errs, field.Invalid(field.NewPath(d.name), d.value.String(), "must not be negative"))
		}
	}
	if knobs.PageSize < 0 || knobs.PageSize > maxPageSize {
		errs = append(errs, field.Invalid(field.NewPath("pageSize"), knobs.PageSize, "must be 1 to 10000, or 0 for the default"))
	}
	if knobs.MaxRoutes < 0 {
		errs = append(errs, field.Invalid(field.NewPath("maxRoutes"), knobs.MaxRoutes, "must not be negative"))
	}
	if q := knobs.Quota; q != nil {
		if q.RequestsPerSecond <= 0 {
			errs = append(errs, field.Invalid(field.NewPath("quota", "requestsPerSecond"), q.RequestsPerSecond, "must be greater than 0"))
		}
		if q.Burst < 1 {
			errs = append(errs, field.Invalid(field.NewPath("quota", "burst"), q.Burst, "must be at least 1"))
		}
	}
	return errs
}

// ValidateFault returns everything that is wrong with a fault.
func ValidateFault(fault api.Fault) field.ErrorList {
	errs := oneOf(field.NewPath("operation"), fault.Operation, append(api.Operations(), api.AnyOperation))
	errs = append(errs, oneOf(field.NewPath("mode"), fault.Mode, []api.FaultMode{
		api.FaultStatus, api.FaultEmpty, api.FaultHang, api.FaultTruncate, api.FaultMalformed, api.FaultShortList, api.FaultAsync,
	})...)
	status := field.NewPath("status")
	switch {
	case fault.Mode == api.FaultStatus && (fault.Status < 400 || fault.Status > 599):
		errs = append(errs, field.Invalid(status, fault.Status, "must be 400 to 599"))
	case fault.Mode != api.FaultStatus && fault.Status != 0:
		errs = append(errs, field.Invalid(status, fault.Status, "is only for mode status"))
	}
	if fault.RetryAfter.Duration < 0 {
		errs = append(errs, field.Invalid(field.NewPath("retryAfter"), fault.RetryAfter.Duration.String(), "must not be negative"))
	}
	if fault.Skip < 0 {
		errs = append(errs, field.Invalid(field.NewPath("skip"), fault.Skip, "must not be negative"))
	}
	if fault.Count < 1 {
		errs = append(errs, field.Invalid(field.NewPath("count"), fault.Count, "must be at least 1"))
	}
	creations := []api.Operation{api.OpCreateInstance, api.OpCreateLoadBalancer}
	if fault.Mode == api.FaultAsync && !slices.Contains(creations, fault.Operation) {
		errs = append(errs, field.Invalid(field.NewPath("operation"), fault.Operation, "mode async is for "+join(creations)))
	}
	if fault.Mode == api.FaultShortList && !fault.Operation.IsList() && fault.Operation != api.OpWatchInstances {
		errs = append(errs, field.Invalid(field.NewPath("operation"), fault.Operation, "mode shortList is for lists"))
	}
	return errs
}
