package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Origin is what kind of file a document stands in.
type Origin string

const (
	yamlFile Origin = "yaml"
	goTest   Origin = "go"
	markdown Origin = "markdown"
	testCase Origin = "test case"
)

// Found is the text of a document, and where it stands.
type Found struct {
	File string
	Line int
	From Origin
	Text string
}

var (
	separator = regexp.MustCompile(`(?m)^---(?:[ \t].*)?$`)
	fence     = regexp.MustCompile("(?ms)^[ \t]*```(?:yaml|yml)[ \t]*\n(.*?)^[ \t]*```")
	hasKind   = regexp.MustCompile(`(?m)^[ \t-]*"?kind"?:`)
)

// textsBelow says each document in the files of a folder. What is no YAML by itself, as a template, is left out.
func textsBelow(folder string, say func(Found)) error {
	return filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !entry.Type().IsRegular() {
			return err
		}
		inside, _ := filepath.Rel(folder, path)
		switch {
		case strings.HasSuffix(path, ".yaml"), strings.HasSuffix(path, ".yml"):
			return withText(path, func(text string) { documents(text, Found{File: inside, Line: 1, From: yamlFile}, say) })
		case strings.HasSuffix(path, "_test.go"):
			return stringsOfGo(path, inside, say)
		case strings.HasSuffix(path, ".md"):
			return withText(path, func(text string) {
				for _, at := range fence.FindAllStringSubmatchIndex(text, -1) {
					first := 1 + strings.Count(text[:at[2]], "\n")
					documents(withoutIndent(text[at[2]:at[3]]), Found{File: inside, Line: first, From: markdown}, say)
				}
			})
		}
		return nil
	})
}

func withText(path string, use func(string)) error {
	data, err := os.ReadFile(path)
	if err == nil {
		use(strings.ReplaceAll(string(data), "\r\n", "\n"))
	}
	return err
}

// stringsOfGo says the documents in the raw strings of a test.
func stringsOfGo(path, inside string, say func(Found)) error {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil // a file for another tool
	}
	ast.Inspect(tree, func(node ast.Node) bool {
		literal, ok := node.(*ast.BasicLit)
		if ok && literal.Kind == token.STRING && strings.HasPrefix(literal.Value, "`") {
			text, _ := strconv.Unquote(literal.Value)
			documents(withoutIndent(text), Found{File: inside, Line: files.Position(literal.Pos()).Line, From: goTest}, say)
		}
		return true
	})
	return nil
}

// documents says the parts of a text between the lines that separate documents.
func documents(text string, at Found, say func(Found)) {
	if !hasKind.MatchString(text) {
		return
	}
	first := at.Line
	tell := func(from, to int) {
		if part := text[from:to]; !strings.Contains(part, "{{") && hasKind.MatchString(part) {
			at.Line, at.Text = first+strings.Count(text[:from], "\n"), part
			say(at)
		}
	}
	from := 0
	for _, each := range separator.FindAllStringIndex(text, -1) {
		tell(from, each[0])
		from = min(each[1]+1, len(text))
	}
	tell(from, len(text))
}

// withoutIndent takes off what all lines of a text begin with.
func withoutIndent(text string) string {
	lines := strings.Split(text, "\n")
	least := -1
	for _, line := range lines {
		if trimmed := strings.TrimLeft(line, " "); trimmed != "" && (least < 0 || len(line)-len(trimmed) < least) {
			least = len(line) - len(trimmed)
		}
	}
	if least <= 0 {
		return text
	}
	for i, line := range lines {
		lines[i] = line[min(least, len(line)):]
	}
	return strings.Join(lines, "\n")
}
