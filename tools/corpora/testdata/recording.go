// Package validation is Istio's: this file is laid beside its own while its tests run.
package validation

import (
	"encoding/json"
	"os"

	"google.golang.org/protobuf/proto"

	"istio.io/istio/pkg/config"
)

// recording returns a function that also writes what it is given to the file that CORPORA_RECORD names.
func recording(validate ValidateFunc) ValidateFunc {
	return func(cfg config.Config) (Warning, error) {
		record(cfg)
		return validate(cfg)
	}
}

func record(cfg config.Config) {
	message, ok := cfg.Spec.(proto.Message)
	if !ok || !message.ProtoReflect().IsValid() {
		return
	}
	spec, err := config.ToJSON(cfg.Spec)
	if err != nil {
		return
	}
	line, _ := json.Marshal(map[string]any{
		"proto": message.ProtoReflect().Descriptor().FullName(), "name": cfg.Name, "namespace": cfg.Namespace,
		"labels": cfg.Labels, "annotations": cfg.Annotations, "spec": json.RawMessage(spec),
	})
	file, err := os.OpenFile(os.Getenv("CORPORA_RECORD"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	_, _ = file.Write(append(line, '\n'))
}
