"""Policies of one proxy: who may call its workload, by what they prove of themselves."""
