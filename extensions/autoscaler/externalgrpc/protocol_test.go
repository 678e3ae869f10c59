package externalgrpc

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// public is the autoscaler's own file as a table. See its first lines.
//
//go:embed testdata/public.txt
var public string

// TestPublicDescriptor holds every method, message, field and enum value to the autoscaler's own: name, number, type, cardinality and
// name in JSON. What is here and not there, or there and not here, is an error.
func TestPublicDescriptor(t *testing.T) {
	var want []string
	for line := range strings.Lines(public) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	got := table(File_extensions_autoscaler_externalgrpc_externalgrpc_proto)
	slices.Sort(want)
	slices.Sort(got)
	if len(want) < 100 {
		t.Errorf("the table has %d lines, which is not all of it", len(want))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("differs from the autoscaler's (-) here (+):\n%s", diff)
	}
}

// table is what goes over the wire, one line each.
func table(file protoreflect.FileDescriptor) []string {
	lines := []string{"package " + string(file.Package()) + " " + file.Syntax().String()}
	for i := range file.Services().Len() {
		service := file.Services().Get(i)
		for j := range service.Methods().Len() {
			method := service.Methods().Get(j)
			lines = append(lines, fmt.Sprintf("rpc %s(%s) %s stream=%t,%t", method.FullName(), method.Input().FullName(), method.Output().FullName(),
				method.IsStreamingClient(), method.IsStreamingServer()))
		}
	}
	return append(lines, messages(file.Messages())...)
}

func messages(all protoreflect.MessageDescriptors) []string {
	var lines []string
	for i := range all.Len() {
		message := all.Get(i)
		lines = append(lines, "message "+string(message.FullName()))
		for j := range message.Fields().Len() {
			lines = append(lines, field(message.Fields().Get(j)))
		}
		for j := range message.Enums().Len() {
			values := message.Enums().Get(j).Values()
			for k := range values.Len() {
				lines = append(lines, fmt.Sprintf("enum %s %s = %d", message.Enums().Get(j).FullName(), values.Get(k).Name(), values.Get(k).Number()))
			}
		}
		lines = append(lines, messages(message.Messages())...)
	}
	return lines
}

func field(f protoreflect.FieldDescriptor) string {
	kind := f.Kind().String()
	switch {
	case f.Message() != nil:
		kind = string(f.Message().FullName())
	case f.Enum() != nil:
		kind = string(f.Enum().FullName())
	}
	return fmt.Sprintf("field %s = %d %s %s json=%s", f.FullName(), f.Number(), f.Cardinality(), kind, f.JSONName())
}

// TestWire holds messages that have something special to bytes that were put together by hand: a map, a packed nothing, an enum in a
// message in a list, a field whose name is in capitals, and one whose number is not the next.
func TestWire(t *testing.T) {
	tests := []struct {
		name    string
		message proto.Message
		want    []byte
	}{
		{
			name: "a request to delete",
			message: &NodeGroupDeleteNodesRequest{Id: "g", Nodes: []*ExternalGrpcNode{{
				ProviderID: "sim://i", Name: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"},
			}}},
			want: join(bytesField(1, join(bytesField(1, []byte("sim://i")), bytesField(2, []byte("n")),
				bytesField(3, join(bytesField(1, []byte("a")), bytesField(2, []byte("b")))),
				bytesField(4, join(bytesField(1, []byte("c")), bytesField(2, []byte("d")))))), bytesField(2, []byte("g"))),
		},
		{
			name:    "a negative delta",
			message: &NodeGroupDecreaseTargetSizeRequest{Id: "g", Delta: -2},
			want:    join(varintField(1, 0xfffffffffffffffe), bytesField(2, []byte("g"))), // ten bytes: int32 is extended to 64 bits
		},
		{
			name: "an instance with an error",
			message: &NodeGroupNodesResponse{Instances: []*Instance{{Id: "i", Status: &InstanceStatus{
				InstanceState: InstanceStatus_instanceCreating,
				ErrorInfo:     &InstanceErrorInfo{ErrorCode: "quota", ErrorMessage: "m", InstanceErrorClass: 1},
			}}}},
			want: bytesField(1, join(bytesField(1, []byte("i")), bytesField(2, join(varintField(1, 2),
				bytesField(2, join(bytesField(1, []byte("quota")), bytesField(2, []byte("m")), varintField(3, 1))))))),
		},
		{
			name:    "a template",
			message: &NodeGroupTemplateNodeInfoResponse{NodeBytes: []byte{1, 2}},
			want:    bytesField(2, []byte{1, 2}),
		},
		{
			name: "options",
			message: &NodeGroupAutoscalingOptionsResponse{NodeGroupAutoscalingOptions: &NodeGroupAutoscalingOptions{
				ZeroOrMaxNodeScaling: true, MaxNodeProvisionDuration: durationpb.New(15 * time.Minute),
			}},
			want: bytesField(1, join(varintField(6, 1), bytesField(10, varintField(1, 900)))),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := proto.MarshalOptions{Deterministic: true}.Marshal(test.message)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("by hand (-), generated (+):\n%s", diff)
			}
			decoded := test.message.ProtoReflect().New().Interface()
			if err := proto.Unmarshal(test.want, decoded); err != nil || !proto.Equal(decoded, test.message) {
				t.Errorf("decoded %v, %v", decoded, err)
			}
		})
	}
}

func bytesField(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func varintField(number protowire.Number, value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value)
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// TestGenerated looks that the generated code is what the .proto file says.
func TestGenerated(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "-C", "../../../dev/tools/protocol", "run", ".", "--check", "extensions/autoscaler/externalgrpc/externalgrpc.proto")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
