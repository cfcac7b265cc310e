package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	multierror "github.com/hashicorp/go-multierror"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pkg/config"
	crdvalidation "istio.io/istio/pkg/config/crd"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/config/schema/collections"
	"istio.io/istio/pkg/config/schema/resource"
)

// Word is what becomes of an object in Istio.
type Word string

const (
	accepted Word = "accepted"
	warned   Word = "warned"
	refused  Word = "refused"
	// foreign objects are of a kind that Istio does not validate.
	foreign Word = "foreign"
)

// Verdict is what Istio says of an object. By tells who refused it.
type Verdict struct {
	Word     Word     `json:"verdict"`
	By       string   `json:"by,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Judge decides as the server of Kubernetes does with Istio's definitions, and then istiod's webhook.
type Judge struct {
	definitions *crdvalidation.Validator
}

// newJudge reads the definitions of kinds that stand in the modules themselves.
func newJudge() (*Judge, error) {
	files := []string{}
	for module, patterns := range map[string][]string{
		"istio.io/api":                                {"kubernetes/customresourcedefinitions.gen.yaml"},
		"sigs.k8s.io/gateway-api":                     {"config/crd/experimental/gateway.*.yaml"},
		"sigs.k8s.io/gateway-api-inference-extension": {"config/crd/bases/*.yaml"},
	} {
		folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			return nil, fmt.Errorf("go list -m %s: %w", module, err)
		}
		for _, pattern := range patterns {
			found, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), pattern))
			if err != nil || len(found) == 0 {
				return nil, fmt.Errorf("%s has no %s", module, pattern)
			}
			files = append(files, found...)
		}
	}
	definitions, err := crdvalidation.NewValidatorFromFilesWithOptions(files, crdvalidation.WithoutCRDValidation())
	if err != nil {
		return nil, err
	}
	definitions.SkipMissing = false
	return &Judge{definitions}, nil
}

func (j *Judge) of(object Object) Verdict {
	if object.Kind == meshConfigKind && object.Group == "" {
		if _, err := mesh.ApplyMeshConfigDefaults(object.Text); err != nil {
			return Verdict{Word: refused, By: "istiod", Reason: err.Error()}
		}
		return Verdict{Word: accepted}
	}
	if object.Unread != "" {
		return Verdict{Word: refused, By: "yaml", Reason: object.Unread}
	}
	if strings.HasSuffix(object.Group, ".istio.io") || strings.Contains(object.Group, "gateway.networking.") ||
		strings.HasPrefix(object.Group, "inference.networking.") {
		return j.ofCustomResource(object)
	}
	return ofKubernetes(object)
}

// ofCustomResource decides by the definition of the kind, and then as the webhook does.
func (j *Judge) ofCustomResource(object Object) Verdict {
	data, _ := json.Marshal(asCreated(object.Fields))
	un := &unstructured.Unstructured{}
	if err := un.UnmarshalJSON(data); err != nil {
		return Verdict{Word: refused, By: "kubernetes", Reason: err.Error()}
	}
	if err := j.definitions.ValidateCustomResource(un); err != nil {
		if strings.Contains(err.Error(), "no validator found") {
			return Verdict{Word: foreign, Reason: err.Error()}
		}
		_, said, _ := strings.Cut(err.Error(), ": ")
		return Verdict{Word: refused, By: "schema", Reason: said}
	}
	if err := checkMetadata(object); err != nil {
		return Verdict{Word: refused, By: "kubernetes", Reason: err.Error()}
	}
	gvk := config.GroupVersionKind{Group: object.Group, Version: object.Version, Kind: object.Kind}
	known, ok := collections.Pilot.FindByGroupVersionAliasesKind(gvk)
	if !ok || !strings.HasSuffix(object.Group, ".istio.io") {
		return Verdict{Word: accepted}
	}
	return ofWebhook(known, data)
}

// asCreated returns an object as the server sees it: in a namespace, without nulls that stand for nothing, and without
// the status, which those who create an object can't set.
func asCreated(fields map[string]any) map[string]any {
	found := map[string]any{}
	for key, each := range fields {
		if key != "status" {
			found[key] = each
		}
	}
	metadata := map[string]any{"namespace": "default"}
	given, _ := fields["metadata"].(map[string]any)
	for key, each := range given {
		if each != nil {
			metadata[key] = each
		}
	}
	found["metadata"] = metadata
	return found
}

func ofWebhook(known resource.Schema, data []byte) Verdict {
	var object crd.IstioKind
	if err := json.Unmarshal(data, &object); err != nil {
		return Verdict{Word: refused, By: "webhook", Reason: err.Error()}
	}
	converted, err := crd.ConvertObject(known, &object, "cluster.local")
	if err != nil {
		return Verdict{Word: refused, By: "webhook", Reason: err.Error()}
	}
	warnings, err := known.ValidateConfig(*converted)
	if err != nil {
		return Verdict{Word: refused, By: "webhook", Reason: strings.Join(sentences(err), "; ")}
	}
	if warnings != nil {
		return Verdict{Word: warned, Warnings: sentences(warnings)}
	}
	return Verdict{Word: accepted}
}

func sentences(err error) []string {
	several, ok := err.(*multierror.Error)
	if !ok {
		return []string{err.Error()}
	}
	said := []string{}
	for _, each := range several.Errors {
		said = append(said, sentences(each)...)
	}
	return said
}

func checkMetadata(object Object) error {
	data, _ := json.Marshal(object.Fields["metadata"])
	var metadata metav1.ObjectMeta
	if err := yaml.UnmarshalStrict(data, &metadata); err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	if metadata.Name == "" {
		return errors.New("metadata.name is missing")
	}
	if wrong := validation.IsDNS1123Subdomain(metadata.Name); len(wrong) > 0 {
		return fmt.Errorf("metadata.name: %s", strings.Join(wrong, "; "))
	}
	if wrong := validation.IsDNS1123Label(metadata.Namespace); metadata.Namespace != "" && len(wrong) > 0 {
		return fmt.Errorf("metadata.namespace: %s", strings.Join(wrong, "; "))
	}
	return nil
}

// ofKubernetes decides by the fields of a kind of Kubernetes' own; the server would check their values too.
func ofKubernetes(object Object) Verdict {
	gvk := schema.GroupVersionKind{Group: object.Group, Version: object.Version, Kind: object.Kind}
	empty, err := scheme.Scheme.New(gvk)
	if err != nil {
		return Verdict{Word: foreign, Reason: err.Error()}
	}
	if err := checkMetadata(object); err != nil {
		return Verdict{Word: refused, By: "kubernetes", Reason: err.Error()}
	}
	data, _ := json.Marshal(object.Fields)
	if err := yaml.UnmarshalStrict(data, empty); err != nil {
		return Verdict{Word: refused, By: "kubernetes", Reason: err.Error()}
	}
	return Verdict{Word: accepted}
}
