package writes

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/mooring-ccm/mooring/dev/bench/environment"
	"github.com/mooring-ccm/mooring/dev/localcluster"
)

// writers is how many requests are under way at once.
const writers = 32

// Options say what is measured.
type Options struct {
	// Nodes is how many of them each kind of write is for, and Images how many images each of them has in its status.
	Nodes, Images int
	// Rounds is how often all kinds are measured, in turn.
	Rounds int
}

// Result is what one kind of write cost.
type Result struct {
	Part, Kind string
	// CPU is the processor time of the API server for one write, and Wall the time of all writes of a round divided by their number:
	// the medians of the rounds.
	CPU, Wall time.Duration
}

// Measure measures all kinds of writes on a running control plane.
func Measure(ctx context.Context, cluster *localcluster.Cluster, options Options) ([]Result, error) {
	c, err := connect(cluster)
	if err != nil {
		return nil, err
	}
	var results []Result
	for _, part := range parts() {
		for _, kind := range part.kinds {
			results = append(results, Result{Part: part.name, Kind: kind.name})
		}
	}
	cpu, wall := make([][]time.Duration, len(results)), make([][]time.Duration, len(results))
	for range options.Rounds {
		i := 0
		for _, part := range parts() {
			for _, kind := range part.kinds {
				used, took, err := measure(ctx, c, kind, options)
				if err != nil {
					return nil, fmt.Errorf("%s, %s: %w", part.name, kind.name, err)
				}
				cpu[i], wall[i] = append(cpu[i], used), append(wall[i], took)
				i++
			}
		}
	}
	for i := range results {
		results[i].CPU, results[i].Wall = median(cpu[i]), median(wall[i])
	}
	return results, nil
}

func connect(cluster *localcluster.Cluster) (c clients, err error) {
	config := cluster.AdminConfig()
	config.QPS = -1
	if c.json, err = kubernetes.NewForConfig(config); err != nil {
		return c, fmt.Errorf("connect to the API server: %w", err)
	}
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	if c.protobuf, err = kubernetes.NewForConfig(config); err != nil {
		return c, fmt.Errorf("connect to the API server: %w", err)
	}
	return c, nil
}

// measure makes nodes, writes each of them once, and removes them.
func measure(ctx context.Context, c clients, kind kind, options Options) (cpu, wall time.Duration, err error) {
	nodes := c.protobuf.CoreV1().Nodes()
	if err := each(ctx, options.Nodes, func(ctx context.Context, number int) error {
		_, err := nodes.Create(ctx, registered(number, options.Images), metav1.CreateOptions{})
		return err
	}); err != nil {
		return 0, 0, fmt.Errorf("create nodes: %w", err)
	}
	list, err := nodes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, fmt.Errorf("list nodes: %w", err)
	}
	before, err := processorTime(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := each(ctx, len(list.Items), func(ctx context.Context, number int) error {
		return kind.write(ctx, c, &list.Items[number])
	}); err != nil {
		return 0, 0, fmt.Errorf("write nodes: %w", err)
	}
	wall = time.Since(began)
	after, err := processorTime(ctx, c)
	if err != nil {
		return 0, 0, err
	}
	if err := nodes.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return 0, 0, fmt.Errorf("delete nodes: %w", err)
	}
	number := time.Duration(len(list.Items))
	return (after - before) / number, wall / number, nil
}

// each calls a function for all numbers below a count, several at once.
func each(ctx context.Context, count int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for number := range count {
		group.Go(func() error { return do(ctx, number) })
	}
	return group.Wait()
}

// processorTime returns what the process of the API server has used, by its own metrics.
func processorTime(ctx context.Context, c clients) (time.Duration, error) {
	content, err := c.json.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the API server's metrics: %w", err)
	}
	const name = "process_cpu_seconds_total"
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(content))
	if err != nil || len(families[name].GetMetric()) != 1 {
		return 0, fmt.Errorf("find %s in the API server's metrics: %w", name, err)
	}
	return time.Duration(families[name].GetMetric()[0].GetCounter().GetValue() * float64(time.Second)), nil
}

func median(durations []time.Duration) time.Duration {
	slices.Sort(durations)
	return durations[len(durations)/2]
}

// registered is a node as its kubelet registers it, with images.
func registered(number, images int) *corev1.Node {
	node := environment.Waiting(number + 1)
	for image := range images {
		name := fmt.Sprintf("registry.example/some/project/image-%02d", image)
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{fmt.Sprintf("%s@sha256:%064d", name, number), name + ":v1.2.3"}, SizeBytes: int64(image) << 20,
		})
	}
	return node
}
