// Command corpora reads the YAML that stands in folders and says of each document what Istio makes of it.
//
//	corpora -o FILE [-recorded FILE] NAME=DIR ...
//
// A line of JSON a document goes to the file. NAME is what the folder is called there.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

// Line is what is said of a document. Its text is what the other reader is given.
type Line struct {
	Corpus string `json:"corpus"`
	File   string `json:"file"`
	Number int    `json:"line"`
	From   Origin `json:"from"`
	Group  string `json:"group"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Verdict
}

func main() {
	recorded := flag.String("recorded", "", "objects that tests of Istio validated, a line of JSON each")
	to := flag.String("o", "lines.jsonl", "where the lines go")
	flag.Parse()
	judge, err := newJudge()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	file, err := os.Create(*to) // not the standard output, where Istio's log is
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer file.Close()
	out := bufio.NewWriter(file)
	defer out.Flush()
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	say := func(corpus string, found Found) {
		for _, object := range objectsOf(found.Text) {
			line := Line{Corpus: corpus, File: found.File, Number: found.Line, From: found.From, Text: object.Text}
			line.Group, line.Kind, line.Name = object.Group, object.Kind, object.Name
			line.Verdict = judge.of(object)
			_ = lines.Encode(line)
		}
	}
	for _, argument := range flag.Args() {
		corpus, folder, _ := strings.Cut(argument, "=")
		if err := textsBelow(folder, func(found Found) { say(corpus, found) }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if *recorded != "" {
		if err := recordedIn(*recorded, func(found Found) { say("istio.io/istio", found) }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
