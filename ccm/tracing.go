package ccm

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/util/validation/field"
	apiserveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/component-base/tracing"
	tracingapi "k8s.io/component-base/tracing/api/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// readTracing returns what the file of --tracing-config-file says, nil without one.
func readTracing(file string) (*tracingapi.TracingConfiguration, error) {
	if file == "" {
		return nil, nil
	}
	configuration, err := apiserveroptions.ReadTracingConfiguration(file)
	if err != nil {
		return nil, invalid("tracing-config-file", file, err.Error())
	}
	errs := tracingapi.ValidateTracingConfiguration(configuration, nil, field.NewPath("--tracing-config-file"))
	return configuration, errs.ToAggregate()
}

// newTracing returns where spans go, and what ends that. Without a configuration it returns nil, and a caller that would make spans
// makes none: the library's provider for that would have each one allocated.
func (c *config) newTracing(ctx context.Context) (trace.TracerProvider, func(context.Context), error) {
	if c.tracing == nil {
		return nil, func(context.Context) {}, nil
	}
	provider, err := tracing.NewProvider(ctx, c.tracing, nil, []resource.Option{
		resource.WithAttributes(attribute.String("service.name", programName)),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("--tracing-config-file: %w", err)
	}
	return provider, func(ctx context.Context) {
		flushing, cancel := context.WithTimeout(ctx, c.farewell())
		defer cancel()
		if err := provider.Shutdown(flushing); err != nil {
			log.FromContext(ctx).Error(err, "The last spans were lost")
		}
	}, nil
}
