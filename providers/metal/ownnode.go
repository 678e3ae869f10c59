package metal

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mooring-ccm/mooring/providers/metal/self"
)

// ownNode finds the node on which this replica runs, whether or not it is a machine of the inventory. It is safe for concurrent use.
type ownNode struct {
	nodes   coreinformers.NodeInformer
	observe func() (self.Replica, error)
}

// labels returns the labels of the node, nil as long as nodes are being listed. When the API server is away, they stay as they were.
func (o *ownNode) labels() (map[string]string, error) {
	node, err := o.find()
	switch {
	case node == nil:
		return nil, err
	case node.Labels == nil:
		return map[string]string{}, nil
	}
	return node.Labels, nil
}

// name returns the name of the node, empty if it is not known.
func (o *ownNode) name() string {
	if node, _ := o.find(); node != nil {
		return node.Name
	}
	return ""
}

// find returns the node, nil as long as nodes are being listed.
func (o *ownNode) find() (*corev1.Node, error) {
	if !o.nodes.Informer().HasSynced() {
		return nil, nil
	}
	own, err := o.observe()
	if err != nil {
		return nil, err
	}
	nodes, err := o.nodes.Lister().List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return own.Find(nodes)
}

// onChange calls a function, which returns at once, when a node comes or goes, or gets other labels.
func (o *ownNode) onChange(changed func()) error {
	_, err := o.nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(before, after any) {
			was, known := before.(*corev1.Node)
			is, ok := after.(*corev1.Node)
			if known && ok && !maps.Equal(was.Labels, is.Labels) {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	})
	if err != nil {
		return fmt.Errorf("watching nodes: %w", err)
	}
	return nil
}
