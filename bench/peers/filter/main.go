// Command filter is the yardstick of the extender's verb filter: the least that Go's
// net/http and encoding/json take to answer it.
//
//	filter -nodes FILE
//
// FILE has one node a line: its name, a space, the largest free units of its cards. The
// first line of the output is the address that it listens on. It serves until it is killed.
//
// Rule 1: it does what any extender must, and nothing else: it reads ExtenderArgs, compares
// what the pod asks with one number a node, and answers in kind with a reason for each node
// that does not fit. It watches no cluster and locks nothing.
// Rule 2: of the pod and of the nodes it decodes only what it needs, which favours it: an
// extender written with k8s.io/api decodes all of them.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
)

const resource = "aliyun.com/gpu-mem"

type extenderArgs struct {
	Pod       pod
	Nodes     *nodeList
	NodeNames *[]string
}

type pod struct {
	Spec struct {
		Containers []struct {
			Resources struct {
				Limits map[string]string
			}
		}
	}
}

type nodeList struct {
	Items []json.RawMessage `json:"items"`
}

type node struct {
	Metadata struct {
		Name string
	}
}

type filterResult struct {
	Nodes                      *nodeList
	NodeNames                  *[]string
	FailedNodes                map[string]string
	FailedAndUnresolvableNodes map[string]string
	Error                      string
}

// largestFree is the largest free units of one card, by node name.
type largestFree map[string]int

func main() {
	file := flag.String("nodes", "", "file of node names and their largest free units")
	flag.Parse()
	nodes, err := readNodes(*file)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	http.HandleFunc("/gpushare-scheduler/filter", nodes.filter)
	log.Fatal(http.Serve(listener, nil))
}

func readNodes(name string) (largestFree, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	nodes := largestFree{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		name, units, _ := strings.Cut(lines.Text(), " ")
		if nodes[name], err = strconv.Atoi(units); err != nil {
			return nil, err
		}
	}
	return nodes, lines.Err()
}

func (nodes largestFree) filter(writer http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	var args extenderArgs
	if err := json.Unmarshal(body, &args); err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	result, err := nodes.result(&args)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusBadRequest)
		return
	}
	reply, err := json.Marshal(result)
	if err != nil {
		http.Error(writer, err.Error(), http.StatusInternalServerError)
		return
	}
	writer.Header().Set("Content-Type", "application/json")
	writer.Header().Set("Content-Length", strconv.Itoa(len(reply)))
	_, _ = writer.Write(reply)
}

func (nodes largestFree) result(args *extenderArgs) (*filterResult, error) {
	asked, err := args.Pod.units()
	if err != nil {
		return nil, err
	}
	result := &filterResult{
		FailedNodes:                map[string]string{},
		FailedAndUnresolvableNodes: map[string]string{},
	}
	if args.NodeNames != nil {
		fitting := make([]string, 0, len(*args.NodeNames))
		for _, name := range *args.NodeNames {
			if reason := nodes.misfit(name, asked); reason != "" {
				result.FailedNodes[name] = reason
			} else {
				fitting = append(fitting, name)
			}
		}
		result.NodeNames = &fitting
		return result, nil
	}
	result.Nodes = &nodeList{Items: make([]json.RawMessage, 0, len(args.Nodes.Items))}
	for _, item := range args.Nodes.Items {
		var found node
		if err := json.Unmarshal(item, &found); err != nil {
			return nil, err
		}
		if reason := nodes.misfit(found.Metadata.Name, asked); reason != "" {
			result.FailedNodes[found.Metadata.Name] = reason
		} else {
			result.Nodes.Items = append(result.Nodes.Items, item)
		}
	}
	return result, nil
}

// misfit returns why a node cannot hold the pod; empty if it can.
func (nodes largestFree) misfit(name string, asked int) string {
	free, known := nodes[name]
	if !known {
		return name + ": not known"
	}
	if free >= asked {
		return ""
	}
	return name + ": largest free card has " + strconv.Itoa(free) + " of " +
		strconv.Itoa(asked) + " GiB asked"
}

// units returns what the pod's containers ask for in all.
func (p *pod) units() (int, error) {
	sum := 0
	for _, container := range p.Spec.Containers {
		text, asked := container.Resources.Limits[resource]
		if !asked {
			continue
		}
		units, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", resource, err)
		}
		sum += units
	}
	return sum, nil
}
