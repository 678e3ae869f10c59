package upstream

import (
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/fake"
	servicehelper "k8s.io/cloud-provider/service/helpers"
)

// typesOf has the types that a file may name, by import path and name.
var typesOf = map[string]reflect.Type{
	"k8s.io/apimachinery/pkg/runtime.Object":               reflect.TypeFor[runtime.Object](),
	"k8s.io/apimachinery/pkg/runtime/schema.GroupResource": reflect.TypeFor[schema.GroupResource](),
	"k8s.io/apimachinery/pkg/types.NodeName":               reflect.TypeFor[types.NodeName](),
	"k8s.io/apimachinery/pkg/types.UID":                    reflect.TypeFor[types.UID](),
	"time.Duration":                                        reflect.TypeFor[time.Duration](),
	"time.Time":                                            reflect.TypeFor[time.Time](),
}

func init() {
	for path, all := range map[string][]any{
		"k8s.io/api/core/v1": {
			corev1.Node{}, corev1.NodeList{}, corev1.NodeSpec{}, corev1.NodeStatus{}, corev1.NodeAddress{}, corev1.NodeCondition{}, corev1.Taint{},
			corev1.ContainerImage{}, corev1.NodeConditionType(""), corev1.ConditionStatus(""), corev1.NodePhase(""),
			corev1.Service{}, corev1.ServiceSpec{}, corev1.ServiceStatus{}, corev1.ServicePort{}, corev1.LoadBalancerStatus{}, corev1.LoadBalancerIngress{},
			corev1.ServiceType(""), corev1.Protocol(""), corev1.IPFamily(""), corev1.ServiceExternalTrafficPolicy(""),
		},
		"k8s.io/apimachinery/pkg/apis/meta/v1": {metav1.ObjectMeta{}, metav1.Time{}},
		"k8s.io/cloud-provider":                {cloudprovider.InstanceMetadata{}, cloudprovider.Route{}, cloudprovider.Zone{}},
		"k8s.io/cloud-provider/fake":           {fake.Cloud{}, fake.Route{}, fake.UpdateBalancerCall{}},
	} {
		for _, one := range all {
			typ := reflect.TypeOf(one)
			typesOf[path+"."+typ.Name()] = typ
		}
	}
	typesOf["k8s.io/api/core/v1.ServiceExternalTrafficPolicyType"] = reflect.TypeFor[corev1.ServiceExternalTrafficPolicy]() // its older name
}

// began is the time of a test.
var began = time.Now()

// valuesOf has the constants, variables and functions that a file may name.
var valuesOf = map[string]any{
	"k8s.io/api/core/v1.ConditionFalse":                                  corev1.ConditionFalse,
	"k8s.io/api/core/v1.ConditionTrue":                                   corev1.ConditionTrue,
	"k8s.io/api/core/v1.ConditionUnknown":                                corev1.ConditionUnknown,
	"k8s.io/api/core/v1.IPv4Protocol":                                    corev1.IPv4Protocol,
	"k8s.io/api/core/v1.IPv6Protocol":                                    corev1.IPv6Protocol,
	"k8s.io/api/core/v1.LabelFailureDomainBetaRegion":                    corev1.LabelFailureDomainBetaRegion,
	"k8s.io/api/core/v1.LabelFailureDomainBetaZone":                      corev1.LabelFailureDomainBetaZone,
	"k8s.io/api/core/v1.LabelInstanceType":                               corev1.LabelInstanceType,
	"k8s.io/api/core/v1.LabelInstanceTypeStable":                         corev1.LabelInstanceTypeStable,
	"k8s.io/api/core/v1.LabelNodeExcludeBalancers":                       corev1.LabelNodeExcludeBalancers,
	"k8s.io/api/core/v1.LabelTopologyRegion":                             corev1.LabelTopologyRegion,
	"k8s.io/api/core/v1.LabelTopologyZone":                               corev1.LabelTopologyZone,
	"k8s.io/api/core/v1.NodeDiskPressure":                                corev1.NodeDiskPressure,
	"k8s.io/api/core/v1.NodeExternalIP":                                  corev1.NodeExternalIP,
	"k8s.io/api/core/v1.NodeHostName":                                    corev1.NodeHostName,
	"k8s.io/api/core/v1.NodeInternalIP":                                  corev1.NodeInternalIP,
	"k8s.io/api/core/v1.NodeNetworkUnavailable":                          corev1.NodeNetworkUnavailable,
	"k8s.io/api/core/v1.NodeReady":                                       corev1.NodeReady,
	"k8s.io/api/core/v1.ProtocolSCTP":                                    corev1.ProtocolSCTP,
	"k8s.io/api/core/v1.ProtocolTCP":                                     corev1.ProtocolTCP,
	"k8s.io/api/core/v1.ProtocolUDP":                                     corev1.ProtocolUDP,
	"k8s.io/api/core/v1.ServiceExternalTrafficPolicyLocal":               corev1.ServiceExternalTrafficPolicyLocal,
	"k8s.io/api/core/v1.ServiceTypeClusterIP":                            corev1.ServiceTypeClusterIP,
	"k8s.io/api/core/v1.ServiceTypeLoadBalancer":                         corev1.ServiceTypeLoadBalancer,
	"k8s.io/api/core/v1.ServiceTypeNodePort":                             corev1.ServiceTypeNodePort,
	"k8s.io/api/core/v1.TaintEffectNoExecute":                            corev1.TaintEffectNoExecute,
	"k8s.io/api/core/v1.TaintEffectNoSchedule":                           corev1.TaintEffectNoSchedule,
	"k8s.io/api/core/v1.TaintEffectPreferNoSchedule":                     corev1.TaintEffectPreferNoSchedule,
	"k8s.io/apimachinery/pkg/api/errors.NewConflict":                     apierrors.NewConflict,
	"k8s.io/apimachinery/pkg/api/errors.NewNotFound":                     apierrors.NewNotFound,
	"k8s.io/apimachinery/pkg/apis/meta/v1.Date":                          metav1.Date,
	"k8s.io/apimachinery/pkg/apis/meta/v1.NamespaceDefault":              metav1.NamespaceDefault,
	"k8s.io/apimachinery/pkg/util/intstr.FromInt32":                      intstr.FromInt32,
	"k8s.io/apimachinery/pkg/util/intstr.Parse":                          intstr.Parse,
	"k8s.io/cloud-provider.InstanceNotFound":                             cloudprovider.InstanceNotFound,
	"k8s.io/cloud-provider.NotImplemented":                               cloudprovider.NotImplemented,
	"k8s.io/cloud-provider/api.AnnotationAlphaProvidedIPAddr":            cloudproviderapi.AnnotationAlphaProvidedIPAddr,
	"k8s.io/cloud-provider/api.NewRetryError":                            cloudproviderapi.NewRetryError,
	"k8s.io/cloud-provider/api.TaintExternalCloudProvider":               cloudproviderapi.TaintExternalCloudProvider,
	"k8s.io/cloud-provider/api.TaintNodeShutdown":                        cloudproviderapi.TaintNodeShutdown,
	"k8s.io/cloud-provider/service/helpers.LoadBalancerCleanupFinalizer": servicehelper.LoadBalancerCleanupFinalizer,
	"k8s.io/utils/ptr.To":                                                func(value string) *string { return &value }, // as the files use it
	"new cloud":                                                          func() any { return &fake.Cloud{} },          // for hooks
	"errors.New":                                                         errors.New,
	"fmt.Errorf":                                                         fmt.Errorf,
	"fmt.Sprint":                                                         fmt.Sprint,
	"fmt.Sprintf":                                                        fmt.Sprintf,
	"time.Hour":                                                          time.Hour,
	"time.Local":                                                         time.Local,
	"time.Microsecond":                                                   time.Microsecond,
	"time.Millisecond":                                                   time.Millisecond,
	"time.Minute":                                                        time.Minute,
	"time.Now":                                                           func() time.Time { return began }, // the same at each reading
	"time.Second":                                                        time.Second,
	"time.UTC":                                                           time.UTC,
}
