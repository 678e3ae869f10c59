package managers

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	corev1informers "k8s.io/client-go/informers/core/v1"
	corev1listers "k8s.io/client-go/listers/core/v1"
)

// sortedInformers are informers whose lister of nodes sorts. The reference lists nothing else.
type sortedInformers struct {
	informers.SharedInformerFactory
}

// Core implements informers.SharedInformerFactory.
func (s sortedInformers) Core() core.Interface { return sortedCore{s.SharedInformerFactory.Core()} }

type sortedCore struct{ core.Interface }

// V1 implements core.Interface.
func (s sortedCore) V1() corev1informers.Interface { return sortedV1{s.Interface.V1()} }

type sortedV1 struct{ corev1informers.Interface }

// Nodes implements corev1informers.Interface.
func (s sortedV1) Nodes() corev1informers.TypedNodeInformer { return sortedNodes{s.Interface.Nodes()} }

type sortedNodes struct {
	corev1informers.TypedNodeInformer
}

// Lister implements corev1informers.TypedNodeInformer.
func (s sortedNodes) Lister() corev1listers.NodeLister {
	return sortedLister{s.TypedNodeInformer.Lister()}
}

type sortedLister struct{ corev1listers.NodeLister }

// List implements corev1listers.NodeLister.
func (s sortedLister) List(selector labels.Selector) ([]*corev1.Node, error) {
	nodes, err := s.NodeLister.List(selector)
	slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, err
}
