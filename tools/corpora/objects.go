package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"istio.io/istio/pkg/config/schema/collections"
)

// Object is what a document says, as the server of Kubernetes would get it.
type Object struct {
	Group, Version, Kind, Name string
	Text                       string
	Fields                     map[string]any
	// Unread is why a text with a kind could not be read.
	Unread string
}

// meshConfigKind stands for the mesh config, which is no object: it stands in others.
const meshConfigKind = "MeshConfig"

// objectsOf returns the objects in a document: those of a list, and the mesh config that is in one.
func objectsOf(text string) []Object {
	fields := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &fields); err != nil {
		if yaml.Unmarshal([]byte(text), &fields) != nil {
			return nil // no YAML: a template, or made wrong for a test of a parser
		}
		object := objectOf(text, fields)
		object.Unread = err.Error()
		return []Object{object}
	}
	// Tests of Istio's put the sentence there that they expect.
	if _, marked := fields["_err"]; marked {
		delete(fields, "_err")
		text = written(fields)
	}
	object := objectOf(text, fields)
	if items, ok := fields["items"].([]any); ok && strings.HasSuffix(object.Kind, "List") {
		found := []Object{}
		for _, item := range items {
			if inner, ok := item.(map[string]any); ok {
				found = append(found, objectsOf(written(inner))...)
			}
		}
		return found
	}
	if object.Kind == "" || object.Version == "" {
		return nil
	}
	return append([]Object{object}, meshConfigsIn(object)...)
}

func objectOf(text string, fields map[string]any) Object {
	object := Object{Text: text, Fields: fields}
	version, _ := fields["apiVersion"].(string)
	if group, inner, ok := strings.Cut(version, "/"); ok {
		object.Group, object.Version = group, inner
	} else {
		object.Version = version
	}
	object.Kind, _ = fields["kind"].(string)
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		object.Name, _ = metadata["name"].(string)
	}
	return object
}

func meshConfigsIn(object Object) []Object {
	text := ""
	switch object.Kind {
	case "ConfigMap":
		data, _ := object.Fields["data"].(map[string]any)
		text, _ = data["mesh"].(string)
	case "IstioOperator":
		spec, _ := object.Fields["spec"].(map[string]any)
		if inner, ok := spec["meshConfig"].(map[string]any); ok {
			text = written(inner)
		}
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	return []Object{{Kind: meshConfigKind, Name: object.Name, Text: text}}
}

func written(fields map[string]any) string {
	text, err := yaml.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Recorded is an object that a test of Istio validated, as record.go writes it.
type Recorded struct {
	Proto       string            `json:"proto"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Spec        json.RawMessage   `json:"spec"`
}

// recordedIn says the objects of a file of record.go, each once.
func recordedIn(file string, say func(Found)) error {
	opened, err := os.Open(file)
	if err != nil {
		return err
	}
	defer opened.Close()
	kinds := map[string][2]string{}
	for _, schema := range collections.Pilot.All() {
		kinds[schema.Proto()] = [2]string{schema.APIVersion(), schema.Kind()}
	}
	known := map[string]bool{}
	lines := bufio.NewScanner(opened)
	lines.Buffer(nil, 16<<20)
	for number := 1; lines.Scan(); number++ {
		var each Recorded
		var spec map[string]any
		if json.Unmarshal(lines.Bytes(), &each) != nil || json.Unmarshal(each.Spec, &spec) != nil || known[lines.Text()] {
			continue
		}
		known[lines.Text()] = true
		kind, ok := kinds[each.Proto]
		if !ok {
			continue
		}
		metadata := map[string]any{"name": fmt.Sprintf("case-%d", number)}
		if each.Namespace != "" {
			metadata["namespace"] = strings.ToLower(each.Namespace)
		}
		if len(each.Labels) > 0 {
			metadata["labels"] = each.Labels
		}
		if len(each.Annotations) > 0 {
			metadata["annotations"] = each.Annotations
		}
		text := written(map[string]any{"apiVersion": kind[0], "kind": kind[1], "metadata": metadata, "spec": spec})
		say(Found{File: "pkg/config/validation", Line: number, From: testCase, Text: text})
	}
	return lines.Err()
}
