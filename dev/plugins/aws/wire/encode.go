package wire

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"reflect"
)

// metadata is the field of every output that is about the answer and not in it.
const metadata = "ResultMetadata"

// Encode writes the answer to an action from an output of the SDK, which is a pointer to a struct.
func (p Protocol) Encode(action, request string, output any) ([]byte, error) {
	var text bytes.Buffer
	encoder := xml.NewEncoder(&text)
	body := func() error { return p.encodeFields(encoder, reflect.ValueOf(output).Elem()) }
	err := inside(encoder, action+"Response", func() error {
		if !p.wrapped {
			if err := encoder.EncodeElement(request, element("requestId")); err != nil {
				return err
			}
			return body()
		}
		if err := inside(encoder, action+"Result", body); err != nil {
			return err
		}
		return inside(encoder, "ResponseMetadata", func() error { return encoder.EncodeElement(request, element("RequestId")) })
	})
	if err = errors.Join(err, encoder.Close()); err != nil {
		return nil, fmt.Errorf("write the answer to %s: %w", action, err)
	}
	return text.Bytes(), nil
}

// EncodeError writes a refusal.
func (p Protocol) EncodeError(request, code, message string) ([]byte, error) {
	type refusal struct{ Code, Message string }
	if p.wrapped {
		return xml.Marshal(struct {
			XMLName   xml.Name `xml:"ErrorResponse"`
			Error     refusal
			RequestID string `xml:"RequestId"`
		}{Error: refusal{code, message}, RequestID: request})
	}
	return xml.Marshal(struct {
		XMLName   xml.Name `xml:"Response"`
		Error     refusal  `xml:"Errors>Error"`
		RequestID string
	}{Error: refusal{code, message}, RequestID: request})
}

func element(name string) xml.StartElement { return xml.StartElement{Name: xml.Name{Local: name}} }

func inside(encoder *xml.Encoder, name string, content func() error) error {
	start := element(name)
	if err := encoder.EncodeToken(start); err != nil {
		return err
	}
	if err := content(); err != nil {
		return err
	}
	return encoder.EncodeToken(start.End())
}

func (p Protocol) encodeFields(encoder *xml.Encoder, from reflect.Value) error {
	for _, field := range reflect.VisibleFields(from.Type()) {
		value := from.FieldByIndex(field.Index)
		// The SDK has no pointers to enumerations: an empty one is absent.
		absent := value.IsZero() && value.Kind() != reflect.Bool
		if !field.IsExported() || field.Name == metadata || absent {
			continue
		}
		if err := p.encode(encoder, p.answerName(from.Type(), field), value); err != nil {
			return fmt.Errorf("%s: %w", field.Name, err)
		}
	}
	return nil
}

func (p Protocol) encode(encoder *xml.Encoder, name string, value reflect.Value) error {
	switch value.Kind() {
	case reflect.Pointer:
		return p.encode(encoder, name, value.Elem())
	case reflect.Struct:
		return inside(encoder, name, func() error { return p.encodeFields(encoder, value) })
	case reflect.Slice:
		return inside(encoder, name, func() error {
			for i := range value.Len() {
				if err := p.encode(encoder, p.answerMember, value.Index(i)); err != nil {
					return err
				}
			}
			return nil
		})
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return encoder.EncodeElement(value.Interface(), element(name))
	default:
		return fmt.Errorf("a value of type %s cannot be written", value.Type())
	}
}
